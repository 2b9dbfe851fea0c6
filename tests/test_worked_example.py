"""One group worked out from the paper's formulas, to the last number; what the authors' code gives.

Origin of the group's numbers: `tests/expected/worked_example.py`, which imports nothing from
ktae; its docstring shows the group and the p-values by hand.
"""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from by_backend import credit_table, token_advantages, token_credit

from ktae.estimators import KTAE, preset

EXPECTED = Path(__file__).parent / "expected" / "worked_example.json"

E = 151643  # Qwen's <|endoftext|>, which the released code gives no value
PAD = 5  # a token that is in every rollout: counting it where masked would show everywhere
TOKEN_IDS = np.array(
    [
        [5, 6, 6, 8, E],
        [5, 8, 7, E, PAD],
        [5, 6, 8, PAD, PAD],
        [5, 5, PAD, PAD, PAD],
        [5, 7, 9, 9, E],
        [9, 7, 5, E, PAD],
    ]
)
LENGTHS = np.array([5, 4, 3, 2, 5, 4])
MASK = np.arange(5) < LENGTHS[:, None]
CORRECT = np.array([True, True, True, True, False, False])
REWARDS = np.array([1.0, 0.8, 1.0, 0.9, 0.0, -0.5])  # 0 is not above the default threshold
GROUPS = np.zeros(6, dtype=int)

ESTIMATORS = {
    "paper": preset("paper"),
    "released": preset("released"),
    "point": KTAE(fisher="point"),
    "no_fisher": KTAE(h1=0.0),
    "no_information_gain": KTAE(h2=0.0),
    "no_term_frequency": KTAE(h3=0.0),
}


@pytest.fixture(scope="module")
def frozen() -> dict[str, Any]:
    return json.loads(EXPECTED.read_text(encoding="utf-8"))


def padded(rows: list[list[float]]) -> np.ndarray:
    return np.array([row + [0.0] * (5 - len(row)) for row in rows])


@pytest.mark.parametrize("variant", ESTIMATORS)
def test_credit_and_advantages(backend: str, variant: str, frozen: dict[str, Any]) -> None:
    """These on top of GRPO's rollout advantage, with correctness from the rewards."""
    options = {"credit": ESTIMATORS[variant], "backend": backend}
    for name, got in (
        ("credit", token_credit(TOKEN_IDS, MASK, CORRECT, GROUPS, **options)),
        ("advantages", token_advantages(REWARDS, TOKEN_IDS, MASK, GROUPS, **options)),
    ):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, padded(frozen[variant][name]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("variant", ESTIMATORS)
def test_table(backend: str, variant: str, frozen: dict[str, Any]) -> None:
    table = credit_table(TOKEN_IDS, MASK, CORRECT, GROUPS, ESTIMATORS[variant], backend=backend)
    assert table._fields == ("group", *frozen["columns"])
    for name, expected in zip(
        frozen["columns"], zip(*frozen[variant]["table"], strict=True), strict=True
    ):
        got = getattr(table, name)
        integers = name in ("token_id", "a", "b", "c", "d")
        assert got.dtype == (np.int64 if integers else np.float64), name
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15, err_msg=name)


def test_released_is_what_the_authors_code_computes(backend: str) -> None:
    """Origin: `ComputeKeyTokens` of the released code on nine random groups of 2 to 16 rollouts."""
    with np.load(EXPECTED.with_name("authors.npz")) as file:
        authors = dict(file)
    expected = authors.pop("credit")
    got = token_credit(**authors, credit=preset("released"), backend=backend)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32
    assert np.count_nonzero(expected) > 1000
    exact = token_credit(**authors, credit=preset("released", fisher="two-sided"))
    assert np.abs(exact - expected).max() > 0.2


def test_frozen_numbers_are_what_the_script_writes(frozen: dict[str, Any]) -> None:
    script = SimpleNamespace(**runpy.run_path(str(EXPECTED.with_suffix(".py"))))
    assert script.E == E
    assert [len(rollout) for rollout in script.ROLLOUTS] == LENGTHS.tolist()
    assert [token for rollout in script.ROLLOUTS for token in rollout] == TOKEN_IDS[MASK].tolist()
    assert [float(reward) for reward in script.REWARDS] == REWARDS.tolist()
    assert script.work_out_all() == frozen
