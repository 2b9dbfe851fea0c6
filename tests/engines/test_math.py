"""Real mathematics through TRL: a file of problems, the chat template, the grader, a tiny Qwen2."""

import json

import pyarrow.parquet as pq
import pytest
from saved_outputs import write_lines
from training import ktae, run_here
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

pytest.importorskip("math_verify", reason="needs the extra 'eval'")


def save_qwen(byte_tokenizer, folder):
    """An untrained Qwen2 of two small layers, with a byte-level tokenizer."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(byte_tokenizer / "tokenizer.json"),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    tokens = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    Qwen2ForCausalLM(Qwen2Config(**size, **heads, **tokens)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def test_paper_recipe_trains_a_tiny_qwen(request, byte_tokenizer, tmp_path):
    save_qwen(byte_tokenizer, tmp_path / "qwen")
    rows = [{"problem": f"What is {a} + {a}?", "answer": str(2 * a)} for a in range(6)]
    file = write_lines(tmp_path / "sums.jsonl", rows)
    recipe = request.config.rootpath / "recipes/paper/grpo-ktae-1.5b.yaml"
    small = [
        "steps=1", "rollout.prompts_per_step=2", "rollout.group_size=4",
        "rollout.max_response_length=12", "algorithm.minibatches=2", "logging.eval_problems=4",
        "trl.vllm=false", "trl.forward_rollouts=2", "algorithm.patience=9",
        f"task={{source: file, train: {file}, test: {file}}}", f"model.path={tmp_path / 'qwen'}",
    ]  # fmt: skip
    done = run_here(ktae("train", recipe, *small, "--output", tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["after"].keys() >= {"greedy_accuracy", "sampled_accuracy", "greedy_undecided"}
    (rollouts,) = (tmp_path / "run/rollouts").iterdir()
    rollouts = pq.read_table(rollouts).to_pylist()
    assert len(rollouts) == 8
    for rollout in rollouts:
        assert "What is" in rollout["prompt"] and "<|im_start|>assistant" in rollout["prompt"]
        assert rollout["correct"] == 0, "an untrained model is not right"
