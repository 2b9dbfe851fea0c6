"""Tasks of reasoning-gym: the same problems each time, scored as their authors do, or refused."""

import json

import pytest

from ktae.errors import InputError
from ktae.experiments.recipe import ReasoningGym
from ktae.experiments.tasks import gym

pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")


def task_of(name, **more):
    return ReasoningGym(source="reasoning-gym", name=name, **more)


ADDITION = task_of("chain_sum", settings={"min_terms": 2, "max_terms": 2})


def test_problems_are_the_same_each_time_and_seeds_differ():
    first, again, other = (
        [p.question for p in gym.problems(ADDITION, 6, seed)] for seed in (1, 1, gym.HELD_OUT_SEED)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("answer", "response", "outcome"),
    [
        ("last-number", r"\boxed{{{}}} and 7 more", "correct"),
        ("last-number", "{} and then 5", "incorrect"),
        ("last-number", "no number", "unanswered"),
        ("stated", "First we add 1 to it, and so we come to {} in the end, I think", "unanswered"),
        ("stated", "The answer is {}.", "correct"),
        ("whole", " {}\n", "correct"),
        ("whole", "", "unanswered"),
    ],
)
def test_score_by_a_reference_that_is_all_another_process_needs(answer, response, outcome):
    task = ADDITION.model_copy(update={"answer": answer})
    problem = gym.problems(task, 3, 1)[1]
    assert json.loads(problem.reference)["index"] == 1
    gym._dataset.cache_clear()
    verdict = gym.grade(response.format(problem.answer), problem.reference)
    assert verdict.outcome == outcome


@pytest.mark.parametrize(
    ("name", "response"),
    [("prime_factorization", "2 × 2 x x"), ("letter_counting", "it is {}")],
)
def test_what_its_scorer_cannot_read_or_scores_in_part_is_incorrect(name, response):
    problem = gym.problems(task_of(name, answer="whole"), 1, 1)[0]
    assert gym.grade(response.format(problem.answer), problem.reference).outcome == "incorrect"


@pytest.mark.parametrize("name", gym.REFUSED)
def test_tasks_that_run_code_are_refused(name):
    with pytest.raises(InputError):
        gym.problems(task_of(name), 2, 0)


@pytest.mark.parametrize(
    "changes", [{"name": "chain_sun"}, {"settings": {"min_terms": 5, "max_terms": 2}}]
)
def test_what_there_is_not(changes):
    with pytest.raises(InputError):
        gym.problems(ADDITION.model_copy(update=changes), 2, 0)
