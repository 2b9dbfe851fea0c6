"""Intervals: what they cover, on gradients whose noise is known."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from ktae.errors import InputError
from ktae_lab.align.gradients import product
from ktae_lab.align.products import Alignment, Blocks, Products
from ktae_lab.align.summary import Row, read, rows

SIZE, BATCHES, BLOCKS = 60, 16, 8


def alignment(reference: np.ndarray, base: np.ndarray, credit: np.ndarray) -> Alignment:
    """Of (K, P) parts of a reference, and of (N, P) gradients of either kind."""
    r = reference.sum(axis=0)
    products = [
        Products(bb=b @ b, bt=b @ t, tt=t @ t, br=b @ r, tr=t @ r, rr=r @ r)
        for b, t in zip(base, credit, strict=True)
    ]
    blocks = Blocks(
        (reference @ reference.T).tolist(),
        (base @ reference.T).tolist(),
        {"own": (credit @ reference.T).tolist()},
    )
    return Alignment({"raw": 1.0}, {"raw": {"own": products}}, 0.5, {"raw": blocks})


def drawn(rng: np.random.Generator) -> Alignment:
    """A reference with noise, and two kinds of batches that err in directions of their own."""
    true = np.zeros(SIZE)
    true[0] = 1.0
    lean = np.zeros((2, SIZE))
    lean[[0, 1], [1, 2]] = 1.0
    reference = true / BLOCKS + rng.normal(0, 0.3 / BLOCKS**0.5, (BLOCKS, SIZE))
    base, credit = (true + own + rng.normal(0, 0.2, (BATCHES, SIZE)) for own in lean)
    return alignment(reference, base, credit)


def alone(found: Alignment) -> Row:
    return next(row for row in rows(found, []) if (row.estimator, row.mixture) == ("own", "alone"))


def test_without_a_block_is_without_it() -> None:
    rng = np.random.default_rng(0)
    reference, base, credit = (torch.from_numpy(rng.normal(size=(n, 30))) for n in (4, 5, 5))
    found = alignment(reference.numpy(), base.numpy(), credit.numpy())
    left_out = found.blocks["raw"].without_each("own", found.products["raw"]["own"])
    for k, part in enumerate(left_out):
        less = reference.sum(dim=0) - reference[k]
        for i, got in enumerate(part):
            expected = {"br": (base[i], less), "tr": (credit[i], less), "rr": (less, less)}
            for name, pair in expected.items():
                assert getattr(got, name) == pytest.approx(product(*pair, None))
            assert got.bt == found.products["raw"]["own"][i].bt
    assert len(left_out) == 4


def test_intervals_hold_what_another_reference_would_give() -> None:
    """95 % of them the mean over all draws; those over batches alone far fewer."""
    rng = np.random.default_rng(0)
    draws = [drawn(rng) for _ in range(150)]
    with_both = [alone(found) for found in draws]
    batches_alone = [alone(dataclasses.replace(found, blocks={})) for found in draws]
    mean = np.mean([row.difference for row in with_both])

    def share(found: list[Row]) -> float:
        return float(np.mean([r.difference_low <= mean <= r.difference_high for r in found]))

    assert share(with_both) >= 0.9
    assert share(batches_alone) < 0.6
    spread = np.std([row.difference for row in with_both])
    errors = [row.difference_reference_error for row in with_both]
    assert np.mean(np.square(errors)) ** 0.5 == pytest.approx(spread, rel=0.25)
    assert [row.difference_reference_error for row in batches_alone] == [None] * 150


def test_an_exact_reference_adds_nothing() -> None:
    rng = np.random.default_rng(1)
    base, credit = rng.normal(size=(2, BATCHES, SIZE))
    exact = alignment(np.tile(rng.normal(size=SIZE), (BLOCKS, 1)), base, credit)
    kept, dropped = alone(exact), alone(dataclasses.replace(exact, blocks={}))
    assert kept.difference_reference_error == pytest.approx(0, abs=1e-7)
    assert kept.difference_low == pytest.approx(dropped.difference_low)
    assert kept.high == pytest.approx(dropped.high)


def test_the_scale_of_a_mixture_gives_its_cosine_again() -> None:
    """Credit a third as long as the rollout advantages is multiplied by 3 at × 1 and by 6 at × 2.

    Of four batches one has longer credit, which the median ignores, and one has none.
    """
    rng = np.random.default_rng(2)
    reference, base = rng.normal(size=(2, SIZE))
    credit = np.roll(base, 1) / 3
    parts = np.tile(reference, (BLOCKS, 1))
    lengths = np.array([1, 30, 0, 1])
    several = alignment(parts, np.tile(base, (4, 1)), lengths[:, None] * credit)
    assert [row.scale for row in rows(several, [1])] == [None, None, 1, pytest.approx(3)]
    nothing = alignment(parts, base[None], 0 * credit[None])
    assert [row.scale for row in rows(nothing, [1])] == [None] * 4
    found = alignment(parts, base[None], credit[None])
    scales = {row.mixture: row for row in rows(found, [1, 2]) if row.estimator == "own"}
    assert {name: row.scale for name, row in scales.items()} == {
        "alone": None, "as trained": 1, "× 1": pytest.approx(3), "× 2": pytest.approx(6),
    }  # fmt: skip
    for row in scales.values():
        mixed = credit if row.scale is None else base + row.scale * credit
        lengths = np.linalg.norm(mixed) * np.linalg.norm(reference)
        assert row.cosine == pytest.approx(mixed @ reference / lengths)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"reliability": {}, "accuracy": 1, "products": {"raw": {"a": [1]}}}']
)
def test_what_is_no_alignment_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "align.json"
    with pytest.raises(InputError, match=r"cannot read .*align\.json: No such file"):
        read(path)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"is no align\.json: .*`ktae-lab align` writes"):
        read(path)
