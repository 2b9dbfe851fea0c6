"""Cosines and their intervals: what they cover, on gradients whose noise is known."""

import numpy as np
import pandas as pd
import pytest

from ktae_lab.align import summary
from ktae_lab.align.summary import Measured, Row, rows

SIZE, BATCHES, BLOCKS = 60, 16, 8


def measured(reference: np.ndarray, base: np.ndarray, credit: np.ndarray) -> Measured:
    """Of (K, P) parts of a reference, and of (N, P) gradients of either kind."""
    r = reference.sum(axis=0)
    key = {"measurement": "m", "metric": "raw"}

    def with_each(what: str, gradient: np.ndarray) -> dict[str, float]:
        return {f"{what}_{k}": gradient @ block for k, block in enumerate(reference)}

    products = [
        key
        | {"estimator": "x", "batch": n, "bb": b @ b, "bt": b @ t, "tt": t @ t}
        | {"br": b @ r, "tr": t @ r, "rr": r @ r}
        | with_each("br", b)
        | with_each("tr", t)
        for n, (b, t) in enumerate(zip(base, credit, strict=True))
    ]
    references = [key | {"block": k} | with_each("rr", b) for k, b in enumerate(reference)]
    about = pd.DataFrame([key | {"reliability": 1.0}])
    return Measured(about, pd.DataFrame(references), pd.DataFrame(products))


def alone(of: Measured) -> Row:
    return next(row for row in rows(of, "m") if (row.estimator, row.mixture) == ("x", "alone"))


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def test_a_mixture_has_the_cosine_of_its_gradients() -> None:
    rng = np.random.default_rng(0)
    reference, base, credit = (rng.normal(size=(n, SIZE)) for n in (BLOCKS, 5, 5))
    total = reference.sum(axis=0)
    by_name = {r.mixture: r for r in rows(measured(reference, base, credit), "m", [2])[1:]}
    lengths = 2 * np.linalg.norm(base, axis=1) / np.linalg.norm(credit, axis=1)
    mixed = {
        "alone": credit,
        "as trained": base + credit,
        "× 2": base + lengths[:, None] * credit,
    }
    for name, gradients in mixed.items():
        expected = np.mean([cosine(gradient, total) for gradient in gradients])
        assert by_name[name].cosine.value == pytest.approx(expected)
        less = expected - np.mean([cosine(gradient, total) for gradient in base])
        assert by_name[name].difference.value == pytest.approx(less)
    assert by_name["× 2"].scale == pytest.approx(np.median(lengths))


def test_intervals_hold_what_another_reference_would_give(monkeypatch) -> None:
    """95 % of them the mean over all draws: a reference with noise, and two kinds of batches that
    err in directions of their own."""
    monkeypatch.setattr(summary, "RESAMPLES", 2000)
    rng = np.random.default_rng(0)
    lean = np.zeros((2, SIZE))
    lean[[0, 1], [1, 2]] = 1.0
    true = np.eye(SIZE)[0]
    draws = []
    for _ in range(150):
        reference = true / BLOCKS + rng.normal(0, 0.3 / BLOCKS**0.5, (BLOCKS, SIZE))
        base, credit = (true + way + rng.normal(0, 0.2, (BATCHES, SIZE)) for way in lean)
        draws.append(alone(measured(reference, base, credit)).difference)
    mean = np.mean([draw.value for draw in draws])
    assert np.mean([draw.low <= mean <= draw.high for draw in draws]) >= 0.9


def test_batches_without_credit_have_no_scale_and_no_cosine() -> None:
    rng = np.random.default_rng(2)
    reference, base = np.tile(rng.normal(size=SIZE), (BLOCKS, 1)), rng.normal(size=(3, SIZE))
    nothing = rows(measured(reference, base, 0 * base), "m", [1])
    assert [row.scale for row in nothing] == [None] * 4
    by_name = {row.mixture: row for row in nothing[1:]}
    assert by_name["alone"].cosine.value == 0
    assert by_name["as trained"].difference.value == by_name["× 1"].difference.value == 0
