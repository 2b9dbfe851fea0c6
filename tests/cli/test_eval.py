"""`ktae eval` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from saved_outputs import cells, rows, write_lines

import ktae

pytest.importorskip("math_verify")


Run = Callable[..., Any]


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """A random model over characters, made on the spot."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = ["<unk>", "<eos>", *"abcdefghijklmnopqrstuvwxyz0123456789 .\\{}"]
    backend = Tokenizer(models.WordLevel({x: i for i, x in enumerate(letters)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>"
    )
    config = transformers.LlamaConfig(
        vocab_size=len(letters), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, eos_token_id=1, pad_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    problems = [{"problem": f"what is {i} ?", "answer": str(i)} for i in range(30)]
    write_lines(folder / "aime24.jsonl", problems)
    return folder


def test_a_model_end_to_end_and_resumed(command: Run, tiny_model: Path, data: Path) -> None:
    options = (
        "eval", tiny_model, "--benchmarks", "aime24", "--data", data, "--samples", 2,
        "--temperature", 1, "--max-new-tokens", 8, "--template", "plain", "--batch-size", 16,
        "--output", "out",
    )  # fmt: skip
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
    assert refused.status == 2
    assert "seed" in refused.err
    again = command("eval", "--regrade", "out")
    assert again.status == 0
    assert command("compare", "out", "out").status == 0


def test_the_task_of_a_recipe(command: Run, tiny_model: Path) -> None:
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    import transformers

    Path("recipe.yaml").write_text(
        "{name: x, steps: 1, task: {source: reasoning-gym, name: chain_sum}, "
        "rollout: {max_response_length: 4}}"
    )
    options = (
        "eval",
        tiny_model,
        "--recipe",
        "recipe.yaml",
        "--set",
        "logging.eval_problems=6",
        "--output",
        "out",
    )
    options += ("--set", "rollout.max_response_length=3")
    refused = command(*options)
    assert refused.status == 2
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = "{{ messages[-1].content }}"
    tokenizer.save_pretrained(tiny_model)
    result = command(*options)
    assert (result.status, result.err) == (0, "")
    assert "chain_sum" in result.out
    content = json.loads(Path("out/summary.json").read_text())
    assert content["grading"]["grader"] == "reasoning-gym"
    assert content["settings"]["max_new_tokens"] == 3
    assert command("compare", "out", "out").status == 0


def test_the_demo_is_graded_by_its_own_checker(command: Run) -> None:
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
    options = (
        "--recipe",
        "recipe.yaml",
        "-s",
        "logging.eval_problems=8",
        "--output",
        "out",
        "--json",
    )
    result = json.loads(command("eval", "./base", *options).out)
    assert (result["grading"]["grader"], result["grading"]["time_limit"]) == ("demo", None)
    task = task_of(load(Path("recipe.yaml"), ["logging.eval_problems=8"]))
    expected = held_out_scores(task, model, tokenizer)
    scores = result["benchmarks"]["demo"]
    assert scores["accuracy"]["value"] == expected["greedy_accuracy"]
    assert scores["length"]["value"] == expected["greedy_length"]
    notes = json.loads(command("show", "out", "--json").out)["notes"]
    assert [note["kind"] for note in notes if note["severe"]] == ["missing"], "a tokenizer"
    result = json.loads(command("eval", "./base", *options, "--grader", "ktae").out)
    assert result["grading"] == {"grader": "ktae", "time_limit": 5.0, "ktae": ktae.__version__}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval"], "--regrade"),
        (["eval", "m", "--benchmarks", "aime"], "aime24"),
        (["eval", "m", "--samples", "4"], "--temperature"),
        (["eval", "--regrade", "x.jsonl", "--grader", "g"], "'g'"),
        (["eval", "--regrade", "a.jsonl", "--benchmarks", "amc"], "a.jsonl"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], message: str, command: Run, tmp_path: Path
) -> None:
    write_lines(tmp_path / "a.jsonl", rows([1, 0, 1]))
    result = command(*arguments)
    assert result.status == 2
    assert message in result.err
    assert (result.err.count("\n"), "Traceback" in result.err) == (1, False)
