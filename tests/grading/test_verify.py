"""Verdicts on responses; what agrees with what is in `pairs.txt`."""

import pytest

pytest.importorskip("math_verify")

from ktae.grading.forms import key
from ktae.grading.graders import verify
from ktae.grading.verdict import Outcome


def test_one_of_several_answers_is_enough() -> None:
    assert verify(r"\boxed{x-1}", ["y", "x - 1"]).outcome is Outcome.CORRECT
    assert verify(r"\boxed{x-2}", ["y", "x - 1"]).outcome is Outcome.INCORRECT


@pytest.mark.parametrize("gold", ["", "$$", r"\frac{1}{", r"}{", r"\sqrt{", r"a \text{ is } {"])
def test_an_accepted_answer_that_does_not_parse_leaves_it_undecided(gold: str) -> None:
    for response in (r"\boxed{5}", "I do not know."):
        verdict = verify(response, [gold])
        assert verdict.outcome is Outcome.UNDECIDED
        assert verdict.correct is None
        assert verdict.reason


def test_an_unparsable_answer_beside_a_good_one() -> None:
    assert verify(r"\boxed{5}", [r"\frac{1}{", "5"]).outcome is Outcome.CORRECT
    assert verify(r"\boxed{6}", [r"\frac{1}{", "5"]).outcome is Outcome.UNDECIDED
    assert verify("I do not know.", [r"\frac{1}{", "5"]).outcome is Outcome.UNANSWERED


def test_the_verdict_names_answer_rule_and_comparison() -> None:
    verdict = verify(r"\boxed{1} or rather \boxed{\frac12}", ["0.5"])
    assert (verdict.outcome, verdict.extracted) == (Outcome.CORRECT, r"\frac12")
    assert (verdict.rule, bool(verdict.reason)) == ("boxed", True)
    assert (verdict.correct, verify(r"\boxed{3}", ["0.5"]).correct) == (1.0, 0.0)
    unanswered = verify("Nothing to say.", ["0.5"])
    assert (*unanswered[:2], unanswered.correct) == (Outcome.UNANSWERED, None, 0.0)


SLOW = r"\prod_{k=1}^{9000} (1+\frac{1}{k^3})"


@pytest.mark.parametrize(
    "given", ["9^{9^{9^9}}", r"\binom{10^6}{5000}", "x" * 9000, r"\frac{1}{0}", SLOW]
)
def test_a_response_cannot_make_itself_undecided(given: str) -> None:
    assert verify(rf"\boxed{{{given}}}", ["9"]).outcome is Outcome.INCORRECT


def test_an_accepted_answer_that_takes_too_long_leaves_it_undecided() -> None:
    verdict = verify(r"\boxed{5}", [SLOW])
    assert verdict[:2] == (Outcome.UNDECIDED, "5")
    assert verify(rf"\boxed{{{SLOW}}}", [SLOW]).outcome is Outcome.CORRECT


def test_other_accepted_answers_take_no_time_from_the_right_one() -> None:
    assert verify(r"\boxed{\frac12}", [SLOW, "0.5"]).outcome is Outcome.CORRECT
    many = [f"x_{{{i}}}" for i in range(60)]
    assert verify(r"\boxed{\sqrt{8}}", [*many, r"2\sqrt{2}"]).outcome is Outcome.CORRECT


def test_votes_are_counted_by_what_an_answer_is() -> None:
    assert {key(text) for text in ("7", "7.0", r"\frac{14}{2}", "x = 7", "7 apples")} == {"7"}
    assert key("96 + 60 = 156") == "156"
    assert key("1, 2") == key("1,2") != key("12")
