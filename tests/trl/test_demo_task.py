"""The demo's languages as tasks for TRL, and a whole short run of the lists."""

import json
import random

import pyarrow.parquet as pq
import pytest
import torch

from ktae import InputError
from ktae.demo import LANGUAGES, LISTS, STORIES, SUMS, pretrain
from ktae.demo.model import make_tokenizer
from ktae.demo.sizes import MEDIUM, TINY
from ktae.recipe import Recipe, load
from ktae.runs import RunFolder
from ktae.trl.run import load_policy, run
from ktae.trl.tasks import TASKS

TASK = TASKS["demo"]

each_language = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)


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
    TASK.check(make_tokenizer(LISTS), recipe_of(LISTS))
    message = "task demo in the language lists needs a tokenizer of its .* and lacks"
    with pytest.raises(InputError, match=message):
        TASK.check(make_tokenizer(SUMS), recipe_of(LISTS))


def test_a_policy_is_the_recipe_s_base_model(monkeypatch, tmp_path):
    asked = []

    def base_model(*arguments, **size):
        asked.append((*arguments, size))
        return tmp_path / "none"

    monkeypatch.setattr(pretrain, "base_model", base_model)
    recipe = recipe_of(STORIES, model={"demo_seed": 2, "demo_size": "medium"})
    monkeypatch.setattr(torch, "set_num_threads", lambda n: asked.append(n))
    with pytest.raises(InputError, match="cannot load model"):
        load_policy(recipe)
    assert asked == [(STORIES, 2, {"size": MEDIUM})]

    tiny = recipe_of(STORIES, model={"demo_seed": 2})
    with pytest.raises(InputError, match="cannot load model"):
        load_policy(tiny)
    assert asked[1:] == [1, (STORIES, 2, {"size": TINY})]


def test_a_run_of_the_lists(request, tmp_path):
    model, tokenizer = pretrain.pretrain(LISTS, seed=0, steps=40)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    overrides = [
        f"model.path={tmp_path / 'model'}",
        "steps=2",
        "rollout={prompts_per_step: 2, group_size: 4, max_response_length: 24}",
        "algorithm.resampling_rounds=1",
        "logging.eval_problems=8",
    ]
    recipe = load(request.config.rootpath / "lab/recipes/lists/dapo-ktae.yaml", overrides)
    folder, steps = RunFolder(tmp_path / "run"), []
    assert run(recipe, folder, resume=False, on_step=steps.append)
    assert [line["step"] for line in steps] == [1, 2]
    assert json.loads(folder.summary.read_text())["after"].keys() >= {"greedy_accuracy"}
    rollouts = pq.read_table(folder.rollouts / "step-00002.parquet").to_pylist()
    assert len(rollouts) == 8
    answers = {p.prompt: p.answer for p in LISTS.train_problems(4, seed=0)}
    for row in rollouts:
        assert answers[row["prompt"]] == row["answer"]
        finished = row["token_ids"][-1] == tokenizer.eos_token_id
        assert row["correct"] == LISTS.is_correct(row["response"], row["answer"], finished)
