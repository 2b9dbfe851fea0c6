"""Tasks of reasoning-gym: the same problems each time, scored as their authors do, or refused."""

import json

import pytest

from ktae.errors import InputError
from ktae.experiments.recipe import ReasoningGym
from ktae.experiments.tasks import gym

pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")


def score(response, reference):
    return gym.graded(response, reference)[1]


SUMS = ReasoningGym(name="chain_sum", settings={"min_terms": 2, "max_terms": 2})


def test_problems_are_the_same_each_time_and_seeds_differ():
    first, again, other = (
        [gym.question_of(p) for p in gym.problems(SUMS, 6, seed)]
        for seed in (1, 1, gym.HELD_OUT_SEED)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("answer", "response", "outcome"),
    [
        ("last-number", "It is {}.", "correct"),
        ("last-number", r"\boxed{{{}}} and 7 more", "correct"),
        ("last-number", "{} and then 5", "incorrect"),
        ("last-number", "no number", "unanswered"),
        ("stated", "First we add 1 to it, and so we come to {} in the end, I think", "unanswered"),
        ("stated", "The answer is {}.", "correct"),
        ("whole", " {}\n", "correct"),
        ("whole", "", "unanswered"),
    ],
)
def test_score(answer, response, outcome):
    task = SUMS.model_copy(update={"answer": answer})
    problem = gym.problems(task, 3, 1)[1]
    verdict, value = gym.graded(response.format(problem.answer), problem.reference)
    assert verdict.outcome == outcome
    assert (value == 1) == (outcome == "correct")


def test_a_reference_is_all_that_another_process_needs():
    problem = gym.problems(SUMS, 3, 1)[2]
    gym._dataset.cache_clear()
    assert score(problem.answer, problem.reference) == 1
    assert json.loads(problem.reference)["index"] == 2


def test_what_a_scorer_cannot_read_is_worth_nothing():
    problem = gym.problems(ReasoningGym(name="prime_factorization", answer="whole"), 1, 1)[0]
    assert score("2 × 2 x x", problem.reference) == 0


def test_graded_scores_are_kept():
    task = ReasoningGym(name="letter_counting", answer="whole")
    problem = gym.problems(task, 1, 1)[0]
    assert score("it is " + problem.answer, problem.reference) not in (None, 1)


@pytest.mark.parametrize("name", [*gym.REFUSED, "graph_color", "game_of_life_halting"])
def test_tasks_that_run_code_or_whose_scorer_tells_nothing_are_refused(name):
    with pytest.raises(InputError):
        gym.problems(ReasoningGym(name=name), 2, 0)


@pytest.mark.parametrize(
    "changes", [{"name": "chain_sun"}, {"settings": {"min_terms": 5, "max_terms": 2}}]
)
def test_what_there_is_not(changes):
    with pytest.raises(InputError):
        gym.problems(SUMS.model_copy(update=changes), 2, 0)
