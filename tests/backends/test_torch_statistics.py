"""The tensor formulas against the scalar ones, which are tested against scipy and exact numbers."""

import itertools

import numpy as np
import pytest

from ktae import statistics

torch = pytest.importorskip("torch", reason="torch is not installed")

from ktae.backends import torch as backend  # noqa: E402
from ktae.estimators import KTAE  # noqa: E402

SMALL = [
    (a, b, n_true, n_false)
    for n_true, n_false in itertools.product(range(1, 17), repeat=2)
    for a in range(n_true + 1)
    for b in range(n_false + 1)
    if a + b > 0
]
LARGE = [(0, 1, 500, 500), (300, 2, 500, 500), (250, 250, 500, 500), (1, 999, 1, 999), (7, 1, 8, 2)]


def computed(tables: list[tuple[int, int, int, int]], estimator: KTAE) -> np.ndarray:
    columns = torch.tensor(tables, dtype=torch.int64).unbind(1)
    return backend.strength_and_effect(*columns, estimator.formula()).numpy()


@pytest.mark.parametrize("tables", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("fisher", ["two-sided", "point", "float32"])
@pytest.mark.parametrize("memory", [1, 2**18, 2**30])
def test_every_table(
    tables: list[tuple[int, int, int, int]],
    fisher: str,
    memory: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "MEMORY_BYTES", memory)
    if memory == 1:
        tables = tables[::97]  # one table at a time
    got_fisher = computed(tables, KTAE(h2=0, fisher=fisher))
    got_gain = computed(tables, KTAE(h1=0, h2=1, fisher=fisher))
    p = [
        statistics.single_precision_p_value(*table)
        if fisher == "float32"
        else statistics.fisher_p_value(*table, fisher == "point")
        for table in tables
    ]
    scores = [statistics.fisher_score(x) for x in p]
    np.testing.assert_allclose(got_fisher[:, 0], scores, rtol=1e-11, atol=0)
    gain = [statistics.information_gain(*table) for table in tables]
    np.testing.assert_allclose(got_gain[:, 0], gain, rtol=0, atol=1e-13)
    effect = [statistics.effect_size(*table) for table in tables]
    np.testing.assert_allclose(got_fisher[:, 1], effect, rtol=0, atol=1e-13)


def test_a_class_without_rollouts_has_no_strength() -> None:
    assert computed([(0, 2, 0, 5), (3, 0, 4, 0)], KTAE()).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    nothing = [torch.zeros(0, dtype=torch.int64)] * 4
    assert backend.strength_and_effect(*nothing, KTAE().formula()).shape == (0, 2)
