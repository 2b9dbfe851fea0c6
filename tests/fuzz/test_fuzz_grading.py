"""The grader on any text: what finds the answer is held to a time limit; computer algebra runs in
workers that are ended, where every text must come to one of the four outcomes."""

import pytest
from fuzzing import FRAGMENTS, fuzz, no_hang, texts
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("math_verify")

from ktae.grading import GradingPool, Outcome, Task
from ktae.grading.extract import Extracted, extract
from ktae.grading.graders import verify

LATEX = [
    *(r"\boxed{", r"\frac{1}{2}", r"\frac", r"\sqrt{2}", r"\sqrt[3]{x}", r"\pi", r"\infty", "x^2"),
    *(r"\cup", r"\in", r"\left(", r"\right]", r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{a}"),
    *(r"\int_0^1 x dx", r"\sum_{k=1}^n k", r"\log_2 8", r"\sin x", r"\text{ cm}^2", r"^\circ", "!"),
    *("__import__('os').system('x')", "().__class__", "lambda: 0", "exec", r"\write18{x}", "√2"),
    *("i", "e", "E_{1}", "9^{9^9}", "1/0", r"\frac{1}{0}", "0^0", r"10\%", r"\$5", "1,000", "½"),
]
formulas = st.lists(st.sampled_from(LATEX + FRAGMENTS), max_size=8).map("".join)
anything = formulas | texts
responses = (
    st.builds(r"so \boxed{{{}}}".format, anything) | st.builds("The answer is {}.".format, anything)
) | anything


@fuzz(100)
@given(response=responses, fallback=st.sampled_from(["none", "stated", "last"]))
def test_finding_an_answer(response, fallback):
    with no_hang():
        found = extract(response, fallback)
        assert found is None or (isinstance(found, Extracted) and isinstance(found.text, str))


@pytest.mark.parametrize("text", ["a=" * 300 + "1", "(" * 300, "{" * 300 + "}" * 300, "-" * 999])
def test_a_verdict_on_what_is_deep(text):
    for response, answer in ((rf"\boxed{{{text}}}", "5"), (r"\boxed{5}", text), ("5", text)):
        assert isinstance(verify(response, [answer]).outcome, Outcome)


@pytest.fixture(scope="module")
def pool():
    with GradingPool(2, time_limit=2) as pool:
        yield pool


TASKS_AT_A_TIME = 20
tasks = st.lists(
    st.builds(Task, responses, st.lists(anything, min_size=1, max_size=2)),
    min_size=TASKS_AT_A_TIME,
    max_size=TASKS_AT_A_TIME,
)


@fuzz(10, cost=TASKS_AT_A_TIME)
@given(some=tasks)
def test_the_workers_come_to_an_outcome(some, pool):
    """Twenty texts an input; a worker that has died would say so."""
    for verdict in pool.grade_all(some):
        assert isinstance(verdict.outcome, Outcome)
        assert "worker died" not in verdict.reason
