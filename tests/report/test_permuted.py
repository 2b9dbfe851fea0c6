"""The permutation test, on the page."""

import numpy as np
import pytest
from dumps import ROLLOUTS, write_lines

from ktae.estimators import preset
from ktae.report import believing, inputs, summary
from ktae.report.columns import columns_of
from ktae.validity.permutation import permutation_test

PAPER = preset("paper")


def beside(rows, tmp_path, estimator=PAPER):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    columns = columns_of(dump)
    scored = summary.score(columns, estimator)
    mixed_g = (scored.n_true_g > 0) & (scored.n_false_g > 0)
    return dump, believing.beside_permuted(columns, mixed_g, estimator)


def random_rows(groups, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "group": group,
            "token_ids": rng.integers(0, 40, 9).tolist(),
            "reward": int(number % 3 > 0),
        }
        for group in range(groups)
        for number in range(6)
    ]


def test_numbers_are_those_of_null(tmp_path):
    dump, numbers = beside(random_rows(7), tmp_path)
    assert (numbers["groups"], numbers["mixed"], numbers["permutations"]) == (7, 7, 5)
    expected = permutation_test(dump.rollouts, PAPER, permutations=5)
    assert numbers["pairs"] == expected.pairs
    for name in ("credit_abs", "saturated", "no_evidence", "significant", "discoveries"):
        values = [getattr(test, name) for test in expected.permuted]
        assert numbers[name] == pytest.approx(
            {
                "real": getattr(expected.real, name),
                "mean": np.mean(values),
                "low": min(values),
                "high": max(values),
            }
        )


def test_of_many_groups_some_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(believing, "MAX_PERMUTED", 3)
    _, permuted = beside(random_rows(8), tmp_path)
    assert (permuted["groups"], permuted["mixed"]) == (3, 8)
    monkeypatch.setattr(believing, "MAX_TOKENS", 2 * 6 * 9)
    _, permuted = beside(random_rows(8), tmp_path)
    assert (permuted["groups"], permuted["mixed"]) == (2, 8)


def test_nothing_without_a_mixed_group(tmp_path):
    assert beside([row | {"reward": 1} for row in ROLLOUTS], tmp_path)[1] is None
    assert beside([row | {"group": n} for n, row in enumerate(ROLLOUTS)], tmp_path)[1] is None
