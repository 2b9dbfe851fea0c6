import random

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.experiments.demo import SUMS
from ktae.experiments.demo.model import make_model, make_tokenizer


def test_model_size_and_special_ids() -> None:
    model, tokenizer = make_model(SUMS, 0), make_tokenizer(SUMS)
    assert sum(p.numel() for p in model.parameters()) == 99_264
    for config in (model.config, model.generation_config):
        assert config.pad_token_id == tokenizer.pad_token_id
        assert config.bos_token_id == tokenizer.bos_token_id
        assert config.eos_token_id == tokenizer.eos_token_id


def test_saved_and_loaded_by_the_auto_classes(tmp_path) -> None:
    """As a trainer loads it. Beside a Qwen2 the same tokenizer comes back as Qwen's BPE."""
    model, tokenizer, rng = make_model(SUMS, 0), make_tokenizer(SUMS), random.Random(0)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for problem in SUMS.train_problems(50, seed=0):
        text = f"{problem.prompt} {SUMS.worked_solution(problem, rng)}"
        ids = tokenizer(text)["input_ids"]
        assert loaded(text)["input_ids"] == ids
        assert loaded.decode(ids) == text
    assert loaded.padding_side == "left"
    ids_bt = torch.tensor([ids])
    loaded_model = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded_model(ids_bt).logits, model(ids_bt).logits)
