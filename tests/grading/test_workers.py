"""The pool: time limits, isolation, threads, forks. No test asserts how fast it is."""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("math_verify")

from ktae.errors import InputError
from ktae.grading import GradingPool, Outcome, Task, accuracy, grade

TOWER = r"\boxed{9^{9^{9^9}}}"


@pytest.fixture(scope="module")
def pool() -> Iterator[GradingPool]:
    with GradingPool(2, time_limit=1.5) as pool:
        yield pool


HOSTILE = [
    (TOWER, "5"),
    (r"\boxed{(((10^{10})!)!)!}", "5"),
    (r"\boxed{\int_0^{99} x^{x^{x^x}} \sin(x^x) dx}", r"\int_0^1 e^{-x^x} dx"),
    (r"\boxed{" + "+".join(rf"\sqrt{{{i}+x^{{{i}}}}}" for i in range(2, 90)) + "}", r"\sqrt{x}"),
]


@pytest.mark.parametrize(("response", "answer"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_expressions_cost_their_own_limit_only(
    pool: GradingPool, response: str, answer: str
) -> None:
    """Whatever becomes of the hostile one, the others get their verdicts, and the pool lives."""
    others = [Task(rf"\boxed{{x+{i}}}", [f"{i}+x"]) for i in range(8)]
    hostile, *rest = pool.grade_all([Task(response, [answer]), *others])
    assert [verdict.outcome for verdict in rest] == [Outcome.CORRECT] * 8
    assert hostile.outcome in (Outcome.UNDECIDED, Outcome.INCORRECT)
    assert hostile.reason


def test_a_time_limit_is_undecided_and_not_incorrect() -> None:
    """A worker that has no time at all is ended, and replaced."""
    with GradingPool(1, time_limit=0.2) as pool:
        slow = pool.grade(r"\boxed{ " * 300_000, "5")
        assert (*slow[:2], slow.correct) == (Outcome.UNDECIDED, None, None)
        assert pool.grade(r"\boxed{1}", "1") == (Outcome.CORRECT, "1", "same text", "boxed")


def send(pool: GradingPool, number: signal.Signals) -> None:
    """Give all workers of the pool something to do, then a signal."""
    assert all(v.correct for v in pool.grade_all([Task(r"\boxed{1}", "1")] * 8))
    workers = [pool._idle.get() for _ in range(pool.size)]
    for worker in workers:
        if worker is not None:
            os.kill(worker.process.pid, number)
        pool._idle.put(worker)


def test_a_killed_worker_is_replaced(pool: GradingPool) -> None:
    send(pool, signal.SIGKILL)
    assert pool.grade(r"\boxed{1}", "1").outcome is Outcome.CORRECT


def test_a_stopped_worker_is_given_up(pool: GradingPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses no processor time and gets no signal: only a clock on the wall ends it."""
    send(pool, signal.SIGSTOP)
    with monkeypatch.context() as hurry:
        hurry.setattr(pool, "wall_limit", 0.5)
        long = " " * 300_000 + r"\boxed{1}"  # more than a pipe holds
        stopped = list(pool.grade_all([Task(r"\boxed{1}", "1"), Task(long, "1")]))
    assert {verdict.outcome for verdict in stopped} <= {Outcome.CORRECT, Outcome.UNDECIDED}
    assert pool.grade(r"\boxed{1}", "1").outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ("{" * 100_000, "unanswered"),
        ("answer: " * 12_500, None),
        ("\\boxed{5}" + "}" * 100_000, "correct"),
        ("\ud800 \\boxed{5} \x00", "correct"),
        (r"\boxed{" + "(" * 5_000 + "5" + ")" * 5_000 + "}", None),
        # a rule that takes quadratic time, or cubic, would meet the limit: undecided
        ("####x" + " " * 100_000 + "y\nend", "unanswered"),
        ("Answer: 4\n" + "<|endoftext|>" * 8_000 + "\nHuman: next", "incorrect"),
        ("<answer>" + "a" * 2_000 + " 1" * 1_000 + "{</answer>", "incorrect"),
    ],
    ids=range(8),
)
def test_strange_responses(pool: GradingPool, response: str, outcome: str | None) -> None:
    verdict = pool.grade(response, "5")
    if outcome is not None:
        assert verdict.outcome == outcome
    assert verdict.outcome is not Outcome.CORRECT or "5" in (verdict.extracted or "")


def _grade_in_child(pool: GradingPool, results: "multiprocessing.SimpleQueue[str]") -> None:
    results.put(pool.grade(r"\boxed{2}", "2").outcome)
    pool.close()


def test_in_a_forked_child_and_the_parent(pool: GradingPool) -> None:
    assert pool.grade(r"\boxed{2}", "2").outcome is Outcome.CORRECT
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_grade_in_child, args=(pool, results), daemon=True)
    child.start()
    child.join(timeout=120)
    assert child.exitcode == 0
    assert results.get() == "correct"
    assert pool.grade(r"\boxed{3}", "3").outcome is Outcome.CORRECT


def test_a_worker_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktae.grading.workers.BOOTSTRAP", "raise ImportError('no such library')")
    with GradingPool(1) as pool, pytest.raises(RuntimeError):
        pool.grade(r"\boxed{1}", "1")


BAD = {
    "no workers": lambda: GradingPool(0),
    "unknown grader": lambda: GradingPool(grader="best"),
    "a number": lambda: grade(5, "5"),  # type: ignore[arg-type]
    "no answer": lambda: grade("5", []),
    "lengths": lambda: accuracy(["a"], []),
    "no message": lambda: accuracy([{}], ["1"]),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_arguments(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError):
        call()


def test_threads_that_come_first_at_once_share_one_pool() -> None:
    """In a process of its own, where nothing has been graded: there is one pool, and no worker
    outlives its end."""
    script = """
import threading
from ktae.grading import default_pool, grade
barrier, pools = threading.Barrier(16), set()
def first(i):
    barrier.wait()
    pools.add(id(default_pool()))
    assert grade(f"{i}", str(i)).outcome == "correct"
threads = [threading.Thread(target=first, args=(i,)) for i in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
workers = [w.process for w in default_pool()._idle.queue if w]
default_pool().close()
print(len(pools), all(worker.poll() is not None for worker in workers), len(workers) > 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1 True True\n", "")


CALL = {"role": "assistant", "content": None, "tool_calls": [{}]}
TOOL = {"role": "tool", "content": r"\boxed{5}"}
PARTS = [{"type": "image"}, {"type": "text", "text": r"\boxed{5}"}]


@pytest.mark.parametrize(
    ("completion", "answer", "reward"),
    [
        (r"\boxed{5}", 5.0, 1.0),
        (r"\boxed{5}", np.array(["4", "5"]), 1.0),
        (r"\boxed{5}", np.int64(5), 1.0),
        (r"\boxed{5}", None, None),  # a row of another task
        ([CALL, TOOL, {"role": "assistant", "content": r"\boxed{5}"}], "5", 1.0),
        ([CALL, TOOL], "5", 0.0),  # the policy had no room left
        ([{"role": "assistant", "content": "6"}, TOOL], "5", 0.0),
        ([{"role": "assistant", "content": PARTS}], "5", 1.0),
    ],
)
def test_the_reward_is_of_what_the_policy_wrote_last(completion, answer, reward) -> None:  # type: ignore[no-untyped-def]
    assert accuracy([completion], answer=[answer]) == [reward]
