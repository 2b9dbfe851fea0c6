"""Many pairs of an accepted answer and what a response gives, as tables."""

from pathlib import Path

import pytest

pytest.importorskip("math_verify")

from ktae.grading.extract import extract
from ktae.grading.graders import verify


def table(name: str) -> list[list[str]]:
    lines = (Path(__file__).parent / name).read_text("utf-8").splitlines()
    return [line.split(" | ") for line in lines if line and not line.startswith("# ")]


@pytest.mark.parametrize(("answer", "given", "same"), table("pairs.txt"))
def test_pairs(answer: str, given: str, same: str) -> None:
    verdict = verify(rf"So it is \boxed{{{given}}}.", [answer.replace("⏎", "\n")])
    assert verdict.outcome == ("correct" if same == "yes" else "incorrect"), verdict


@pytest.mark.parametrize(("answer", "response", "correct"), table("sentences.txt"))
def test_sentences(answer: str, response: str, correct: str) -> None:
    verdict = verify(response.replace("⏎", "\n"), [answer])
    right = {"correct"} if correct == "yes" else {"incorrect", "unanswered"}
    assert verdict.outcome in right, verdict


@pytest.mark.parametrize(("response", "text"), table("extracted.txt"))
def test_which_part_is_the_answer(response: str, text: str) -> None:
    extracted = extract(response.replace("⏎", "\n"))
    assert (extracted.text if extracted else "-") == text
