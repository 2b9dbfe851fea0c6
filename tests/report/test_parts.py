"""Groups are scored some at a time: pages and scores do not depend on how many."""

import numpy as np
import pyarrow as pa
import pytest

from ktae.report import columns, inputs
from ktae.report.contents import contents


@pytest.fixture(scope="module")
def dump():
    """Forty groups in five steps, their rollouts shuffled; some masks, signals and answers."""
    rng = np.random.default_rng(3)
    rows = []
    for group in range(40):
        words = rng.integers(0, 12, (rng.integers(1, 7), 30))
        for row in words:
            ids = row[: rng.integers(0, 30)].tolist()
            text = "".join(f" w{i}" for i in ids) + f" the answer is {rng.integers(3)}"
            extra = f'{{"entropy": {rng.random(len(ids)).round(3).tolist()}}}'
            mask = (rng.random(len(ids)) < 0.8).tolist() if rng.random() < 0.3 else None
            right = float(rng.random() < 0.5)
            rows.append(
                {"group": f"g{group}", "step": group // 8, "response": text, "token_ids": ids,
                 "mask": mask, "reward": right, "correct": right, "answer": "1", "extra": extra}
            )  # fmt: skip
    rng.shuffle(rows)
    dump = inputs.from_record(pa.Table.from_pylist(rows))
    dump.texts = [f" w{i}".encode() for i in dump.token_ids.tolist()]
    return dump


def test_a_page_is_the_same_from_parts_as_at_once(dump, monkeypatch):
    at_once = contents(dump, regrade=False)
    parts = columns.frame_of(dump).parts()
    assert len(list(parts)) == 1
    for tokens in (1, 400):
        monkeypatch.setattr(columns, "TOKENS_AT_ONCE", tokens)
        assert len(list(columns.frame_of(dump).parts())) > 3
        assert contents(dump, regrade=False) == at_once


def test_parts_are_whole_groups_and_all_of_them(dump, monkeypatch):
    monkeypatch.setattr(columns, "TOKENS_AT_ONCE", 400)
    frame = columns.frame_of(dump)
    of_all = columns.columns_of(dump)
    ids = []
    for groups, rows, part in frame.parts():
        assert part.labels == frame.labels[groups]
        assert len(part.ids_n) <= 400 or len(part.labels) == 1
        np.testing.assert_array_equal(part.correct_b, of_all.correct_b[rows])
        ids_of_part = [frame.ids(row) for row in range(rows.start, rows.stop)]
        np.testing.assert_array_equal(part.ids_n, np.concatenate(ids_of_part))
        ids.append(part.ids_n)
    np.testing.assert_array_equal(np.concatenate(ids), of_all.ids_n)
