"""benchmarks/step_time.py, with a model so small that it would often end a response early."""

import argparse
import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from ktae.trl import KTAETrainer
from ktae.trl.trainer import RolloutBatch

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/step_time.py"


@pytest.fixture(scope="module")
def step_time() -> ModuleType:
    spec = importlib.util.spec_from_file_location("step_time", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_response_has_the_full_length(
    step_time: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[RolloutBatch] = []
    recorded = functools.partial(KTAETrainer, on_rollouts=batches.append)
    monkeypatch.setattr(step_time, "KTAETrainer", recorded)
    shape = step_time.SHAPES["tiny"] | {"vocab_size": 12}  # an end in twelve tokens
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**shape))
    arguments = argparse.Namespace(prompts=1, length=20, micro_batch=16, steps=2)
    tokenizer = step_time.make_tokenizer(12)
    measured = step_time.train("grpo-ktae", model, tokenizer, arguments)
    assert len(measured) == 2 and all(seconds > own > 0 for seconds, own in measured)
    assert [len(ids) for batch in batches for ids in batch.token_ids] == [20] * 32
