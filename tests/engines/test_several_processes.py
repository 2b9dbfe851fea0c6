"""Groups split over processes: every rank gets the credit that one process would have given."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import oracle
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.padding import pad
from ktae.trainers.trl.gradient_check import WEIGHTS, expected_gradient, relative_error

PROCESSES = 3
GROUP_SIZE = 6
"""Four groups on three ranks of eight rollouts: two whole ones, and two that are parted."""


def test_credit_is_that_of_one_process(base, tmp_path):
    script = Path(__file__).with_name("rank.py")
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    command = [sys.executable, "-m", *launcher]
    arguments = [script, base, tmp_path, 8, GROUP_SIZE]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(tmp_path / f"rank{i}.pt", weights_only=True) for i in range(PROCESSES)]
    for parts in zip(*ranks, strict=True):
        check_step(parts)
    check_gradient(base, next(zip(*ranks, strict=True)), torch.load(tmp_path / "gradient.pt"))
    widths = [{part["credit"].shape[1] for part in parts} for parts in zip(*ranks, strict=True)]
    assert any(len(step) > 1 for step in widths), "the ranks never differed in width"


def check_step(parts):
    token_ids = [ids for part in parts for ids in part["token_ids"]]
    prompts = [prompt for part in parts for prompt in part["inputs"]]
    correct = torch.cat([part["correct"] for part in parts]).numpy()
    n = len(parts[0]["token_ids"])
    assert [part["first_row"] for part in parts] == [n * rank for rank in range(len(parts))]
    groups = np.arange(len(token_ids)) // GROUP_SIZE
    assert len(set(zip(groups, prompts, strict=True))) == len(set(groups)), "not TRL's groups"
    ids_bt, mask_bt = pad(token_ids)
    expected = oracle.token_credit(ids_bt, mask_bt, correct, groups)
    assert np.abs(expected).max() > 0
    credit = [row for part in parts for row in part["credit"]]
    for row, ids in enumerate(token_ids):
        np.testing.assert_allclose(credit[row][: len(ids)], expected[row, : len(ids)], atol=1e-6)
        assert not credit[row][len(ids) :].any()


def check_gradient(base, parts, gradient):
    """The first step's, over all processes, is that of all rollouts in one batch."""
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(base, padding_side="left")
    width = max(part["credit"].shape[1] for part in parts)
    advantages = torch.cat([
        torch.nn.functional.pad(
            part["advantages"].unsqueeze(1) + part["credit"], (0, width - part["credit"].shape[1])
        )
        for part in parts
    ])  # fmt: skip
    batch = SimpleNamespace(
        token_ids=[ids for part in parts for ids in part["token_ids"]],
        inputs=[{"prompt": prompt} for part in parts for prompt in part["inputs"]],
    )
    expected = expected_gradient(model, tokenizer, batch, advantages, WEIGHTS["dapo"])
    assert relative_error(gradient, expected) < 1e-5
