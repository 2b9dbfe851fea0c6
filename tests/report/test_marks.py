"""Tokens that mark an end or a format, and rollouts that are finished."""

import numpy as np
from saved_outputs import write_lines

from ktae.report import inputs, marks
from ktae.report.frame import frame_of


def marks_of(path, rows):
    dump = inputs.load([write_lines(path, rows)])
    marked = marks.find(frame_of(dump))
    named = {
        (dump.texts[i] or str(dump.token_ids[i]).encode()).decode(): int(marked.mark_v[i])
        for i in np.flatnonzero(marked.mark_v)
    }
    return named, marked


def rows_of(texts, **fields):
    return [
        {"group": 0, "response": text, "reward": i % 2} | fields for i, text in enumerate(texts)
    ]


def test_a_box_and_a_closing_tag_but_not_the_words(tmp_path):
    texts = [
        r"we think <think> a box holds an answer </think> so \boxed{4}",
        r"we think of a box, 1 < 2 / 1 > 0 </think> and \boxed{5} is the answer",
    ]
    named, marked = marks_of(tmp_path / "r.jsonl", rows_of(texts))
    assert named == {"boxed": marks.FORMAT}
    assert marked.finished_b.tolist() == [1, 1]


def test_four_hashes_count_on_the_last_line_only(tmp_path):
    for text, expected in (("so 2 + 2 = 4\n#### 4", True), ("#### Step 1\n2 + 2\n4", False)):
        named, _ = marks_of(tmp_path / "r.jsonl", rows_of([text] * 3))
        assert (marks.FORMAT in named.values()) == expected


def test_an_end_is_a_token_that_stands_nowhere_else(tmp_path):
    """Ids without text: 9 ends most rollouts, 8 only one, and 7 stands elsewhere as well."""
    ids = [[1, 2, 9], [1, 7, 9], [2, 2, 9], [7, 1, 7], [3, 3, 8]]
    rows = [{"group": 0, "token_ids": x, "reward": i % 2} for i, x in enumerate(ids)]
    named, marked = marks_of(tmp_path / "r.jsonl", rows)
    assert named == {"9": marks.END}
    assert marked.finished_b.tolist() == [1, 1, 1, 0, 0]


def test_an_answer_at_the_end_is_no_end(tmp_path):
    named, marked = marks_of(tmp_path / "r.jsonl", rows_of(["it is 12"] * 4))
    assert named == {} and np.isnan(marked.finished_b).all()


def test_what_the_dump_says_comes_first(tmp_path):
    cut = [{"finish_reason": "length"}, {"finished": False}, {"truncated": True}]
    fields = [*cut, {"finish_reason": "stop"}, {"is_truncated": False}, {}]
    rows = [row for x in fields for row in rows_of([r"\boxed{1}"], **x)]
    _, marked = marks_of(tmp_path / "r.jsonl", rows)
    np.testing.assert_array_equal(marked.finished_b, [0, 0, 0, 1, 1, np.nan])


def test_rollouts_of_the_limits_length_are_cut_off(tmp_path):
    """Ten stop at 100 tokens, one of them is a token longer; the others end anywhere."""
    lengths = [100] * 9 + [101] + list(range(20, 98, 3))
    rows = [
        {"group": 0, "token_ids": [1, 2] * (n // 2) + [1] * (n % 2), "reward": 0} for n in lengths
    ]
    _, marked = marks_of(tmp_path / "r.jsonl", rows)
    assert marked.finished_b.tolist() == [0.0] * 10 + [1.0] * (len(lengths) - 10)
