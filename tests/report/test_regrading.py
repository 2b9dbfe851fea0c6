"""Where the report's own grader disagrees with a dump's verdicts."""

import json
import zlib
from base64 import b64decode

import pytest
from dumps import ROLLOUTS, write_lines

from ktae.grading import Outcome, Verdict
from ktae.report import inputs, regrading, write_report
from ktae.report.columns import columns_of
from ktae.report.contents import contents

pytest.importorskip("math_verify", reason="grading needs the extra 'eval'")


def row(group, response, reward, answer="4"):
    return {"group": group, "response": response, "reward": reward, "answer": answer}


MISSED = [row("wrong", f"try {i}: \\boxed{{4.0}}", 0) for i in range(3)]
"""Right answers in a group that is all incorrect in the dump."""

DUMP = [
    *[row("mixed", "the answer is 4", 1), row("mixed", "the answer is 5", 0)],
    *[row("mixed", f"{i}, so the answer is 5", 0) for i in range(2)],
    *MISSED,
    *[row("right", "the answer is 4", 1), row("right", "so \\boxed{6}", 1)],
]


def regraded(path, rows, **options):
    dump = inputs.load([write_lines(path, rows)])
    columns = columns_of(dump)
    return columns, regrading.regrade(columns, dump, **options)


def meta_of(path, rows, **options):
    blocks = contents(inputs.load([write_lines(path, rows)]), **options).blocks
    return json.loads(zlib.decompress(b64decode(blocks["meta"]), -15))


def test_verdicts_that_differ_by_reason_in_unmixed_groups_too(tmp_path):
    _, result = regraded(tmp_path / "r.jsonl", DUMP)
    assert (result.gradable, result.graded, result.undecided) == (9, 9, 0)
    assert list(result.reasons(0.0).values()) == [3]
    assert [(x.rollout, x.stored) for x in result.differences] == [
        *[(4, 0.0), (5, 0.0), (6, 0.0)],
        (8, 1.0),
    ]
    assert {x.verdict.extracted for x in result.differences} == {"4.0", "6"}
    assert not result.asks_for_more  # three of the six incorrect ones


def test_where_most_differ_no_single_rollout_is_flagged(tmp_path):
    """As in the game of 24: all state the answer, and the verdict is of something else."""
    rows = [row(i // 4, f"try {i}: the answer is 4", int(i == 0)) for i in range(8)]
    _, result = regraded(tmp_path / "r.jsonl", rows)
    assert result.asks_for_more and len(result.differences) == 7
    meta = meta_of(tmp_path / "r.jsonl", rows)
    assert meta["regraded"]["total"] == 7
    keys = {finding["key"] for finding in meta["findings"]}
    assert not keys & {"right-here", "wrong-here", "overwritten", "answer-stated"}


def test_only_what_can_be_graded(tmp_path):
    rows = [
        *ROLLOUTS[:2],
        row("no answer", "the answer is 4", 0, answer=None),
        {**row("no verdict", "the answer is 4", 0), "reward": None},
        row("an empty answer", "the answer is 4", 0, answer=" "),
    ]
    _, result = regraded(tmp_path / "r.jsonl", rows)
    assert (result.gradable, result.differences) == (2, [])
    assert regraded(tmp_path / "r.jsonl", rows[2:])[1] is None


@pytest.mark.parametrize("answer", ["2 + 2 = <<2+2=4>>4\n#### 4", "it is\nA: 4", "['5', '4']"])
def test_references_of_other_forms(tmp_path, answer):
    _, result = regraded(tmp_path / "r.jsonl", [row("g", "the answer is 4", 0, answer)])
    assert [x.verdict.outcome for x in result.differences] == [Outcome.CORRECT]


def test_responses_without_an_answer_are_listed_where_they_are_rare(tmp_path):
    silent = [row("silent", "I do not know", 1)]
    cut = [row("cut", f"well {i}", 0) for i in range(9)]  # incorrect here as in the dump
    right = [row("right", f"{i}, so the answer is 4", 1) for i in range(6)]
    _, result = regraded(tmp_path / "r.jsonl", silent + right + cut)
    assert [x.verdict.outcome for x in result.differences] == [Outcome.UNANSWERED]
    _, result = regraded(tmp_path / "r.jsonl", silent + right[:2])
    assert (result.unanswered, result.differences) == ([0], [])


def test_above_the_bound_whole_groups_are_left_out(tmp_path):
    rows = [row(group, f"the answer is {i}", 0) for group in range(10) for i in (5, 6)]
    columns, result = regraded(tmp_path / "r.jsonl", rows, most=7)
    assert (result.gradable, result.graded, result.stopped) == (20, 6, False)
    assert columns.labels[0] == "0"


def test_grading_ends_after_many_timeouts(tmp_path, monkeypatch):
    asked = []

    class Pool:
        def grade_all(self, tasks):
            for task in tasks:
                asked.append(task.response)
                yield Verdict(Outcome.UNDECIDED, None, "time limit of 5 s")

    monkeypatch.setattr(regrading, "default_pool", Pool)
    monkeypatch.setattr(regrading, "MAX_TIMEOUTS", 3)
    rows = [row("g", f"the answer is {i}", 0) for i in range(9)]
    _, result = regraded(tmp_path / "r.jsonl", rows)
    assert (len(asked), result.graded, result.stopped) == (3, 3, True)


def test_equal_responses_are_graded_once(tmp_path, monkeypatch):
    asked = []

    class Pool:
        def grade_all(self, tasks):
            for task in tasks:
                asked.append(task.response)
                yield Verdict(Outcome.CORRECT, "4", "boxed")

    monkeypatch.setattr(regrading, "default_pool", Pool)
    _, result = regraded(tmp_path / "r.jsonl", [DUMP[0]] * 5 + [DUMP[1]])
    assert len(asked) == 2
    assert [x.rollout for x in result.differences] == [5]


def test_without_math_verify_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(regrading, "can_grade", lambda: False)
    result = meta_of(tmp_path / "r.jsonl", DUMP)
    assert result["regraded"] is None
    assert "Not graded again" in [note["title"] for note in result["notes"]]


def test_the_page_lists_them_and_leads_there(tmp_path, open_page):
    write_report(write_lines(tmp_path / "r.jsonl", DUMP), tmp_path / "r.html")
    page = open_page(tmp_path / "r.html")
    counts = page.locator(".findings .count").all_inner_texts()
    assert counts[:2] == ["3", "1"]
    page.locator(".findings a").first.click()
    assert "finding=right-here" in page.url
    assert page.locator("[role=status]").inner_text() == "3 rollouts in 1 group"
    assert page.locator(".rollout.fits").count() == 3
    page.locator(".rollout .flag:not(.fit)").nth(1).click()
    page.wait_for_selector("#card.open")
    assert "group=3&rollout=2&token=" in page.url
    assert page.locator("#card .token").inner_text() == "4"
