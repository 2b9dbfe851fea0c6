"""Measurements as tables."""

import numpy as np
import pytest

from ktae.errors import InputError
from ktae_lab.align import stored
from ktae_lab.align.products import Alignment, Blocks, Products


def measured(rng: np.random.Generator, n_blocks: int) -> stored.Measured:
    """Two estimators in both metrics, three batches."""
    metrics, names = ("raw", "adam"), ("paper", "calibrated:units=[token,bigram]")

    def products() -> list[Products]:
        return [Products(*rng.normal(size=6).tolist()) for _ in range(3)]

    def matrix(rows: int) -> list[list[float]]:
        found: list[list[float]] = rng.normal(size=(rows, n_blocks)).tolist()
        return found

    blocks = {
        metric: Blocks(matrix(n_blocks), matrix(3), {name: matrix(3) for name in names})
        for metric in metrics
        if n_blocks
    }
    alignment = Alignment(
        {metric: rng.random() for metric in metrics},
        {metric: {name: products() for name in names} for metric in metrics},
        rng.random(),
        blocks,
    )
    return stored.Measured(alignment, 64, 3, {"cpu": "a, b", "date": "2026-01-01"})


def flat(found: Alignment) -> list[float]:
    products = [one for own in found.products.values() for of in own.values() for one in of]
    own = [x for one in products for x in vars(one).values()]
    kept = [
        x
        for blocks in found.blocks.values()
        for part in (blocks.rr, blocks.br, *blocks.tr.values())
        for row in part
        for x in row
    ]
    return [found.accuracy, *found.reliability.values(), *own, *kept]


def test_what_is_written_is_read(tmp_path):
    """Of references with blocks, with fewer, and without any."""
    rng = np.random.default_rng(0)
    written = {f"run {n}": measured(rng, n) for n in (0, 2, 4)}
    stored.write(tmp_path, written)
    found = stored.read(tmp_path)
    assert list(found) == list(written)
    for name, one in written.items():
        assert found[name][1:] == one[1:]
        mine, theirs = found[name].alignment, one.alignment
        assert {m: list(own) for m, own in mine.products.items()} == {
            m: list(own) for m, own in theirs.products.items()
        }
        assert flat(mine) == pytest.approx(flat(theirs), rel=1e-6)
        assert len(mine.blocks) == len(theirs.blocks)


def test_tables_that_do_not_fit_together_are_an_error(tmp_path):
    stored.write(tmp_path, {"a": measured(np.random.default_rng(0), 2)})
    path = tmp_path / stored.MEASUREMENTS
    path.write_text(path.read_text() + path.read_text().splitlines()[1].replace("a,", "b,", 1))
    with pytest.raises(InputError, match="do not fit together"):
        stored.read(tmp_path)
