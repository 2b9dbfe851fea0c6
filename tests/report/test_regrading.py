"""Where the report's own grader disagrees with a dump's verdicts."""

import pytest
from dumps import ROLLOUTS, page_data
from dumps import graded_row as row
from saved_outputs import write_lines

from ktae.grading import Outcome, Verdict
from ktae.grading.verdict import TIME_LIMIT
from ktae.report import inputs, regrading
from ktae.report.frame import frame_of

pytest.importorskip("math_verify", reason="grading needs the extra 'eval'")

DUMP = [
    *[row("mixed", "the answer is 4", 1), row("mixed", "the answer is 5", 0)],
    *[row("mixed", f"{i}, so the answer is 5", 0) for i in range(2)],
    # Correct answers in a group that is all incorrect in the dump.
    *[row("wrong", f"try {i}: \\boxed{{4.0}}", 0) for i in range(3)],
    *[row("right", "the answer is 4", 1), row("right", "so \\boxed{6}", 1)],
]


def regraded(path, rows):
    frame = frame_of(inputs.load([write_lines(path, rows)]))
    return regrading.grade(frame, lambda *_: None)


def outcomes(graded):
    """Of the responses that are graded otherwise than in the dump."""
    return [graded.verdicts[row].outcome for row in graded.differ]


def test_verdicts_that_differ_by_reason_in_unmixed_groups_too(tmp_path):
    result = regraded(tmp_path / "r.jsonl", DUMP)
    assert len(result.verdicts) == 9
    assert result.differ == [4, 5, 6, 8]
    assert {result.verdicts[row].extracted for row in result.differ} == {"4.0", "6"}
    assert not result.asks_for_more  # three of the six incorrect ones


def test_where_most_differ_no_single_rollout_is_flagged(tmp_path):
    """As in the game of 24: all state the answer, and the verdict is of something else."""
    rows = [row(i // 4, f"try {i}: the answer is 4", int(i == 0)) for i in range(8)]
    result = regraded(tmp_path / "r.jsonl", rows)
    assert result.asks_for_more and len(result.differ) == 7


def test_only_what_can_be_graded(tmp_path):
    rows = [
        *ROLLOUTS[:2],
        row("no answer", "the answer is 4", 0, answer=None),
        {**row("no verdict", "the answer is 4", 0), "reward": None},
        row("an empty answer", "the answer is 4", 0, answer=" "),
    ]
    result = regraded(tmp_path / "r.jsonl", rows)
    assert (len(result.verdicts), result.differ) == (2, [])
    assert regraded(tmp_path / "r.jsonl", rows[2:]) is None


@pytest.mark.parametrize("answer", ["2 + 2 = <<2+2=4>>4\n#### 4", "it is\nA: 4", "['5', '4']"])
def test_references_of_other_forms(tmp_path, answer):
    result = regraded(tmp_path / "r.jsonl", [row("g", "the answer is 4", 0, answer)])
    assert outcomes(result) == [Outcome.CORRECT]


def test_responses_without_an_answer_are_listed_where_they_are_rare(tmp_path):
    silent = [row("silent", "I do not know", 1)]
    cut = [row("cut", f"well {i}", 0) for i in range(9)]  # incorrect here as in the dump
    right = [row("right", f"{i}, so the answer is 4", 1) for i in range(6)]
    result = regraded(tmp_path / "r.jsonl", silent + right + cut)
    assert outcomes(result) == [Outcome.UNANSWERED]
    result = regraded(tmp_path / "r.jsonl", silent + right[:2])
    assert (result.unanswered, result.differ) == ([0], [])


def test_above_the_bound_whole_groups_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(regrading, "MAX_GRADED", 7)
    rows = [row(group, f"the answer is {i}", 0) for group in range(10) for i in (5, 6)]
    result = regraded(tmp_path / "r.jsonl", rows)
    assert len(result.verdicts) == 6


def test_grading_ends_after_many_timeouts_and_asks_once_for_equal_responses(tmp_path, monkeypatch):
    asked = []

    class Pool:
        def grade_all(self, tasks):
            for task in tasks:
                asked.append(task.response)
                yield Verdict(Outcome.UNDECIDED, None, "5 s", TIME_LIMIT)

    monkeypatch.setattr(regrading, "default_pool", Pool)
    monkeypatch.setattr(regrading, "MAX_TIMEOUTS", 3)
    rows = [row("g", f"the answer is {max(4, i)}", 0) for i in range(12)]
    result = regraded(tmp_path / "r.jsonl", rows)
    assert (len(asked), len(result.verdicts)) == (3, 7)


def test_without_math_verify_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(regrading, "can_grade", lambda: False)
    page = page_data(inputs.load([write_lines(tmp_path / "r.jsonl", DUMP)]))
    assert "not_graded" in [note["key"] for note in page.notes]
