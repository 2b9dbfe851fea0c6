"""Tasks for TRL."""

import random

import numpy as np
import pytest

from ktae import InputError
from ktae.estimators import preset
from ktae.experiments.demo import sums
from ktae.experiments.demo.model import make_tokenizer
from ktae.experiments.generation import Generations
from ktae.experiments.recipe import Logging, Recipe
from ktae.experiments.tasks import task_of
from ktae.experiments.trl import tasks


def test_problems_and_checker_are_the_demo_s():
    task = task_of(Recipe(name="r", steps=3, seed=2))
    rows = tasks.train_set(task).to_list()
    problems = sums.train_problems(3 * 8, seed=2)
    assert [(x["prompt"], x["answer"]) for x in rows] == [
        (p.prompt, str(p.answer)) for p in problems
    ]

    tokenizer = make_tokenizer()
    rng = random.Random(0)
    problems = sums.train_problems(300, seed=0)
    texts = [sums.worked_solution(problem, rng) for problem in problems]
    ids = [tokenizer(text)["input_ids"][:64] for text in texts]
    rewards = tasks.reward_function(task, tokenizer)(
        completions=tokenizer.batch_decode(ids, skip_special_tokens=True),
        completion_ids=ids,
        reference=[str(problem.answer) for problem in problems],
        prompts=[problem.prompt for problem in problems],
    )
    pairs = zip(problems, texts, strict=True)
    correct = [sums.grade(text, p.answer, len(text.split()) <= 64).correct for p, text in pairs]
    assert rewards == correct and 0 < sum(correct) < len(correct)


def test_a_model_of_other_words_is_refused():
    tokenizer = make_tokenizer()
    task_of(Recipe(name="r", steps=3)).check_tokenizer(tokenizer)
    tokenizer.eos_token = "<pad>"
    with pytest.raises(InputError):
        task_of(Recipe(name="r", steps=3)).check_tokenizer(tokenizer)


@pytest.mark.parametrize("graded", [True, False])
def test_scores_are_for_a_graded_estimator(graded, tmp_path):
    """Of a reward function of the user's own: only 1 is correct, also as float32."""
    (tmp_path / "mine.py").write_text("def score(response, answer): return float(response)\n")
    credit, reward = preset("calibrated", graded_rewards=graded), f"{tmp_path / 'mine.py'}:score"
    recipe = Recipe(name="x", steps=2, reward=reward, credit=credit)
    function = tasks.reward_function(task_of(recipe), None)
    rewards = function(completions=["0", "0.999", "1"], reference=["", "", ""])
    assert rewards == [0, 0.999, 1]
    correct = np.array(rewards, np.float32) > np.float32(recipe.correct_above)
    assert correct.tolist() == [False, not graded, True]


@pytest.mark.parametrize(("longest", "greedy", "sampled"), [(64, 1.0, 0.75), (4, 0.0, 0.0)])
def test_a_response_counts_if_it_is_right_and_ended(longest, greedy, sampled, monkeypatch):
    """A model that copies the answers, and sampled one wrong one; a box takes five tokens."""
    recipe = Recipe(name="r", steps=3, rollout={"max_response_length": longest})
    task = task_of(recipe.model_copy(update={"logging": Logging(eval_problems=4)}))
    answers = [row.answer for row in task.held_out_rows()]

    def generate(*_, temperature, max_new_tokens, **__):
        boxes = [f"so box {x} }}" for x in answers]
        if temperature:
            boxes[0] += f" so box {(int(answers[0]) + 1) % 20} }}"
        ids = [[0] * min(5, max_new_tokens)] * 4
        return Generations(ids, boxes, [max_new_tokens >= 5] * 4)

    monkeypatch.setattr(tasks, "generate", generate)
    scores = tasks.held_out_scores(task, None, None)
    assert (scores["greedy_accuracy"], scores["sampled_accuracy"]) == (greedy, sampled)
    assert scores["greedy_length"] == min(5, longest)
    assert scores["greedy_unanswered"] == 0
