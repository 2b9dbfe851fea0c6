"""Which responses are finished."""

import numpy as np
import pytest
from ktae.report.finished import find
from saved_outputs import write_lines

from ktae.report import inputs
from ktae.report.frame import frame_of


@pytest.fixture
def finished(tmp_path):
    def finished_b(rows):
        path = write_lines(tmp_path / "r.jsonl", rows)
        return find(frame_of(inputs.load([path]))).finished_b

    return finished_b


def rows_of(ids, **fields):
    return [{"group": 0, "token_ids": x, "reward": i % 2} | fields for i, x in enumerate(ids)]


def test_what_the_dump_says_comes_first(finished):
    cut = [{"finish_reason": "length"}, {"finished": False}, {"truncated": True}]
    fields = [*cut, {"finish_reason": "stop"}, {"is_truncated": False}, {}]
    rows = [row for x in fields for row in rows_of([[1, 9]], **x)]
    np.testing.assert_array_equal(finished(rows), [0, 0, 0, 1, 1, np.nan])


def test_responses_of_the_limits_length_are_cut_off(finished):
    """Ten stop at 100 tokens, one of them is a token longer; the others end anywhere."""
    lengths = [100] * 9 + [101] + list(range(20, 98, 3))
    rows = rows_of([[1, 2] * (n // 2) + [1] * (n % 2) for n in lengths])
    assert finished(rows).tolist() == [0.0] * 10 + [1.0] * (len(lengths) - 10)
