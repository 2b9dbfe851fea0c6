"""Many pairs of an accepted answer and what a response gives, as tables."""

import json
from pathlib import Path

import pytest

pytest.importorskip("math_verify")

from ktae.grading.graders import verify


def table(name: str) -> list[list[str]]:
    lines = (Path(__file__).parent / name).read_text("utf-8").splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("#")]


CASES = Path(__file__).parents[3] / "shared" / "cases" / "grading.jsonl"


@pytest.mark.parametrize(("answer", "given", "same"), table("pairs.txt"))
def test_pairs(answer: str, given: str, same: str) -> None:
    verdict = verify(rf"So it is \boxed{{{given}}}.", [answer.replace(r"\n####", "\n####")])
    assert verdict.outcome == ("correct" if same == "yes" else "incorrect"), verdict


@pytest.mark.parametrize(("answer", "response", "correct"), table("sentences.txt"))
def test_sentences(answer: str, response: str, correct: str) -> None:
    verdict = verify(response.replace("⏎", "\n"), [answer])
    right = {"correct"} if correct == "yes" else {"incorrect", "unanswered"}
    assert verdict.outcome in right, verdict


@pytest.mark.skipif(not CASES.exists(), reason=f"{CASES} is not here")
def test_the_given_cases() -> None:
    """No wrong answer is paid, none is undecided, and what may be disputed aside all are right."""
    wrong = []
    for case in map(json.loads, CASES.read_text("utf-8").splitlines()):
        outcome = str(verify(case["response"], [case["answer"]]).outcome)
        right = {"correct"} if case["right"] == "correct" else {"incorrect", "unanswered"}
        if outcome not in right and (outcome != "incorrect" or not case["open"]):
            wrong.append((case["id"], outcome))
    assert [some for some in wrong if some[1] in ("correct", "undecided")] == []
    assert len(wrong) <= 5, wrong
