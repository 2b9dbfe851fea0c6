"""What scores credit by advantages from continuations, on cases by hand."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from extras import require

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
require("torch")
sys.path.append(str(BENCHMARKS))
import token_scores  # noqa: E402
import torch  # noqa: E402


def sample_rows():
    """A group of `5 6 2` (correct) and `5 7` (incorrect); V is .5 at first and after 5, then 1."""
    counts = {(): (8, 16), (5,): (8, 16), (5, 6): (16, 16)}
    return [
        {"response": str(r), "position": str(t), "token_id": str(ids[t]), "correct": str(1 - r)}
        | {"log_prob": str(np.log(0.5)), "entropy": "0.7", "squares": "0.5"}
        | {f"{name}_{half}": str(counts[ids[:t]][i]) for i, name in enumerate(("right", "n"))
           for half in "ab"}
        for r, ids in enumerate([(5, 6, 2), (5, 7)])
        for t in range(len(ids))
    ]  # fmt: skip


def test_a_group_of_the_samples():
    group = token_scores.group_of(sample_rows())
    assert group.token_ids.tolist() == [[5, 6, 2], [5, 7, 0]]
    for half in group.halves:
        assert half.tolist() == [0, 0.5, 0, 0, -0.5]
    # the errors of .5 by 16 each, .18 and .13: only where V is known after the token is it a key
    assert [key.tolist() for key in group.keys] == [[False, True, False, False, True]] * 2
    assert group.grpo == pytest.approx([2**-0.5] * 3 + [-(2**-0.5)] * 2, rel=1e-5)


def test_the_kernel_is_of_gradients_of_log_probabilities():
    logits = torch.tensor([0.3, -1.0, 0.8], dtype=torch.float64)
    probs = logits.softmax(0).numpy()
    gradients = [
        torch.func.grad(lambda x, a=a: x.log_softmax(0)[a])(logits).numpy() for a in (0, 0, 2)
    ]
    ids, squares = np.array([0, 0, 2]), np.full(3, (probs**2).sum())
    kernel = token_scores.logit_kernel(np.zeros(3), ids, probs[ids], squares)
    assert kernel == pytest.approx(np.array(gradients) @ np.array(gradients).T)
    apart = token_scores.logit_kernel(np.arange(3), ids, probs[ids], squares)
    assert apart == pytest.approx(np.diag(np.diag(kernel)))


def test_exact_advantages_are_the_ceiling_and_grpo_is_zero():
    groups = [token_scores.group_of(sample_rows())]
    exact, every = token_scores.exact_row(groups), np.array([0, 0])
    scores = token_scores.scores(groups, exact, exact, every)
    assert scores["share"] == 1
    assert scores["rank"] == pytest.approx(1)
    assert scores["precision"] == scores["sign"] == 1
    nothing = token_scores.row_of(groups, [np.zeros(5)])
    assert token_scores.scores(groups, nothing, exact, every)["share"] == 0
    # the halves are alike here, so exact advantages as anyone's credit are the ceiling, too
    same = token_scores.row_of(groups, [groups[0].halves[0]])
    assert token_scores.scores(groups, same, exact, every)["share"] == pytest.approx(1)


def test_tied_scores_share_their_precision():
    key = np.array([True, False, False, True])
    assert token_scores.average_precision(np.zeros(4), key) == 0.5
    assert token_scores.average_precision(np.array([4.0, 3, 2, 1]), key) == (1 + 0.5) / 2
    assert np.isnan(token_scores.average_precision(np.zeros(2), np.zeros(2, bool)))


def test_estimators_are_scored_from_the_committed_samples_alone(tmp_path):
    table = tmp_path / "rows.csv"
    script = [sys.executable, BENCHMARKS / "real_tokens.py", "-e", "tempo"]
    done = subprocess.run([*script, "--resamples", "2", "--csv", table], capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {row["estimator"]: row for row in csv.DictReader(table.read_text().splitlines())}
    assert list(rows) == ["grpo", "random places", "permuted labels", "tempo", "exact"]
    assert float(rows["grpo"]["share"]) == 0
    assert float(rows["exact"]["share"]) == 1
