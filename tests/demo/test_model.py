import random
from pathlib import Path
from typing import Any

import pytest
import torch
from second_language import MORE
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.demo import SUMS, Language
from ktae.demo.model import make_model, make_tokenizer


def texts(language: Language[Any], n: int) -> list[str]:
    rng = random.Random(0)
    problems = language.train_problems(n, seed=0)
    return [f"{p.prompt} {language.worked_solution(p, rng)}" for p in problems]


def test_a_word_outside_the_language_is_an_error() -> None:
    with pytest.raises(Exception, match="Missing"):
        make_tokenizer(SUMS)("tom has 21 .")


@pytest.mark.parametrize(("language", "parameters"), [(SUMS, 99_264), (MORE, 21_952)])
def test_model_size_and_special_ids(language: Language[Any], parameters: int) -> None:
    model, tokenizer = make_model(language, 0), make_tokenizer(language)
    assert sum(p.numel() for p in model.parameters()) == parameters
    for config in (model.config, model.generation_config):
        assert config.pad_token_id == tokenizer.pad_token_id
        assert config.bos_token_id == tokenizer.bos_token_id
        assert config.eos_token_id == tokenizer.eos_token_id


def test_saved_and_loaded_by_the_auto_classes(tmp_path: Path) -> None:
    """As a trainer loads it. Beside a Qwen2 the same tokenizer comes back as Qwen's BPE."""
    model, tokenizer = make_model(SUMS, 0), make_tokenizer(SUMS)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in texts(SUMS, 50):
        ids = tokenizer(text)["input_ids"]
        assert loaded(text)["input_ids"] == ids
        assert loaded.decode(ids) == text
    assert loaded.padding_side == "left"
    ids_bt = torch.tensor([ids])
    loaded_model = AutoModelForCausalLM.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded_model(ids_bt).logits, model(ids_bt).logits)
