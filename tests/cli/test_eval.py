"""`ktae eval` as a user runs it."""

import json
from pathlib import Path

import pytest
from saved_outputs import cells, write_lines

import ktae

pytest.importorskip("math_verify")


@pytest.fixture
def tiny_model(command, byte_tokenizer):
    """The tokenizer of a random model, made on the spot in the folder `tiny`."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    file, end = str(byte_tokenizer / "tokenizer.json"), "<|endoftext|>"
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=file, eos_token=end, pad_token=end
    )
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "vocab_size": len(tokenizer), "initializer_range": 0.5}
    ends = dict.fromkeys(("eos_token_id", "pad_token_id"), tokenizer.eos_token_id)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **ends))
    for part in (model, tokenizer):
        part.save_pretrained("tiny")
    return tokenizer


def test_a_model_end_to_end_and_resumed(command, tiny_model):
    problems = [{"problem": f"what is {i} ?", "answer": str(i)} for i in range(30)]
    write_lines(Path("data/aime24.jsonl"), problems)
    options = "eval ./tiny --benchmarks aime24 --data data --samples 2 --temperature 1 --output out"
    options = f"{options} --max-new-tokens 8 --template plain --batch-size 16".split()
    first = command(*options)
    assert (first.status, first.err) == (0, "")
    assert cells(first.out, "AIME24")[0] == "30"
    batches = sorted(Path("out/batches").iterdir())
    assert [path.name for path in batches] == [f"0000{i}.part" for i in range(4)]
    results = Path("out/summary.json").read_bytes()
    batches[1].unlink()
    Path("out/summary.json").unlink()
    assert command(*options).status == 0
    assert Path("out/summary.json").read_bytes() == results
    refused = command(*options, "--seed", 1)
    assert refused.status == 2 and "seed" in refused.err
    assert command("eval", "--regrade", "out").status == 0
    assert command("compare", "out", "out").status == 0


def test_the_task_of_a_recipe(command, tiny_model):
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    Path("recipe.yaml").write_text(
        "{name: x, steps: 1, task: {source: reasoning-gym, name: chain_sum}, "
        "rollout: {max_response_length: 4}}"
    )
    options = "eval ./tiny --recipe recipe.yaml --output out --set logging.eval_problems=6"
    options = [*options.split(), "--set", "rollout.max_response_length=3"]
    assert command(*options).status == 2, "without a chat template"
    tiny_model.chat_template = "{{ messages[-1].content }}"
    tiny_model.save_pretrained("tiny")
    result = command(*options)
    assert (result.status, result.err) == (0, "")
    assert "chain_sum" in result.out
    content = json.loads(Path("out/summary.json").read_text())
    assert content["grading"]["grader"] == "reasoning-gym"
    assert content["settings"]["max_new_tokens"] == 3
    assert command("compare", "out", "out").status == 0


def test_the_demo_is_graded_by_its_own_checker(command):
    """As `ktae train` grades it before and after; an untrained model will do."""
    pytest.importorskip("transformers")
    from ktae.experiments.demo.model import make_model, make_tokenizer
    from ktae.experiments.recipe import load
    from ktae.experiments.tasks import task_of
    from ktae.experiments.trl.tasks import held_out_scores

    model, tokenizer = make_model(seed=0), make_tokenizer()
    for part in (model, tokenizer):
        part.save_pretrained("base")
    Path("recipe.yaml").write_text("{name: x, steps: 1, task: demo}")
    words = "eval ./base --recipe recipe.yaml -s logging.eval_problems=8 --output out --json"
    result = json.loads(command(*words.split()).out)
    assert (result["grading"]["grader"], result["grading"]["time_limit"]) == ("demo", None)
    task = task_of(load(Path("recipe.yaml"), ["logging.eval_problems=8"]))
    expected = held_out_scores(task, model, tokenizer)
    scores = result["benchmarks"]["demo"]
    assert scores["accuracy"]["value"] == expected["greedy_accuracy"]
    assert scores["length"]["value"] == expected["greedy_length"]
    notes = json.loads(command("show", "out", "--json").out)["notes"]
    assert [note["kind"] for note in notes if note["severe"]] == ["missing"], "a tokenizer"
    result = json.loads(command(*words.split(), "--grader", "ktae").out)
    assert result["grading"] == {"grader": "ktae", "time_limit": 5.0, "ktae": ktae.__version__}
