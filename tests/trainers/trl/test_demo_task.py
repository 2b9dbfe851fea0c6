"""The demo's languages as tasks for TRL."""

import random

import pytest
from second_language import MORE, offer

from ktae import InputError
from ktae.demo import SUMS
from ktae.demo.model import make_tokenizer
from ktae.recipe import Recipe
from ktae.trainers.trl.tasks import DemoTask

TASK = DemoTask()
each_language = pytest.mark.parametrize("language", [SUMS, MORE], ids=lambda each: each.name)


@pytest.fixture(autouse=True)
def two_languages(monkeypatch):
    offer(monkeypatch)


def recipe_of(language, **fields):
    return Recipe(name="r", steps=3, demo={"language": language.name}, **fields)


@each_language
def test_the_training_set_is_the_language_s(language):
    rows = TASK.train_set(recipe_of(language, seed=2)).to_list()
    problems = language.train_problems(3 * 8, seed=2)
    assert rows == [{"prompt": p.prompt, "answer": p.answer} for p in problems]


@each_language
def test_the_reward_is_the_language_s_checker(language):
    tokenizer = make_tokenizer(language)
    reward = TASK.reward(tokenizer, recipe_of(language))
    rng = random.Random(0)
    problems = language.train_problems(300, seed=0)
    texts = [language.worked_solution(problem, rng) for problem in problems]
    ids = [tokenizer(text)["input_ids"][:64] for text in texts]
    found = reward(
        completions=tokenizer.batch_decode(ids, skip_special_tokens=True),
        completion_ids=ids,
        answer=[problem.answer for problem in problems],
        prompts=[problem.prompt for problem in problems],
    )
    finished = [len(text.split()) <= 64 for text in texts]
    pairs = zip(problems, texts, finished, strict=True)
    assert found == [float(language.is_correct(text, p.answer, done)) for p, text, done in pairs]
    assert 0 < sum(found) < len(found)


def test_a_model_of_another_language_is_refused():
    TASK.check(make_tokenizer(MORE), recipe_of(MORE))
    message = "task demo in the language more-sums needs a tokenizer of its .* and lacks besides"
    with pytest.raises(InputError, match=message):
        TASK.check(make_tokenizer(SUMS), recipe_of(MORE))
