"""The reward function that verl calls."""

import random

import pyarrow.parquet as pq
import pytest

from ktae.errors import InputError
from ktae.experiments.demo import sums
from ktae.experiments.demo.sums import EOS
from ktae.experiments.recipe import Recipe
from ktae.experiments.tasks import task_of
from ktae.experiments.tasks.base import write
from ktae.experiments.verl.reward import compute_score
from ktae.trainers.verl import reward as mathematics


def demo(response, answer="7", limit=8, source="ktae/demo"):
    return compute_score(source, response, answer, {"index": 0}, max_response_length=limit)


def outcome(**ones):
    names = ("score", "acc", "unanswered", "undecided")
    return {name: float(ones.get(name, 0)) for name in names}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("so box 7 }", outcome(score=1, acc=1)),
        ("box 7 } box 8 }", outcome()),
        ("so box 7", outcome(unanswered=1)),
        ("a a a a box 7 }", outcome(score=1, acc=1)),
        ("a a a a a box 7 }", outcome()),  # at the limit: it never came to its end
    ],
)
def test_the_demo(response, expected):
    assert demo(response) == expected


def test_the_demo_s_check_is_the_one_that_trl_uses():
    rng = random.Random(0)
    verdicts = set()
    for problem in sums.train_problems(200, seed=3):
        response = sums.worked_solution(problem, rng)
        text = response.removesuffix(EOS).strip()
        for limit in (16, 64):
            finished = len(response.split()) <= limit
            cut = " ".join(text.split()[:limit])
            expected = sums.grade(cut, problem.answer, finished).correct == 1
            verdicts.add(expected)
            assert demo(cut, str(problem.answer), limit)["acc"] == expected
    assert verdicts == {True, False}


def test_an_unknown_task_is_not_graded_as_mathematics():
    with pytest.raises(InputError):
        demo("box 7 }", source="ktae/latin")


EXPECTED = {
    "correct": {"score": 1, "acc": 1},
    "incorrect": {},
    "unanswered": {"unanswered": 1},
    "undecided": {"undecided": 1},
}


def test_the_reward_is_the_verdict_of_evaluation():
    """verl's reward and `ktae eval` call one grader: the same texts, the same verdicts."""
    pytest.importorskip("math_verify", reason="needs the extra 'eval'")
    from ktae.grading import GradingPool, Task

    asked = [
        Task(r"so \boxed{\frac{1}{2}}", "0.5"),
        Task(r"so \boxed{2}", ["3", "x"]),
        Task("no idea", "1"),
        Task(r"\boxed{1}", r"\frac{1}{"),
    ]
    with GradingPool(1) as pool:
        verdicts = list(pool.grade_all(asked))
    assert [v.outcome for v in verdicts] == ["correct", "incorrect", "unanswered", "undecided"]
    for task, verdict in zip(asked, verdicts, strict=True):
        found = mathematics.compute_score("math12k", task.response, task.answers, {})
        assert found == outcome(**EXPECTED[verdict.outcome])


def test_verl_s_own_loader_finds_it_and_it_scores_reasoning_gym_s_rows(verl, tmp_path):
    """From the Parquet file that a recipe's run writes, by the keys that verl passes on."""
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    task = {"source": "reasoning-gym", "name": "chain_sum", "instruction": "Be brief."}
    recipe = Recipe.model_validate({"name": "x", "steps": 1, "task": task})
    made = task_of(recipe)
    write({"train": made.train_rows()}, tmp_path / "data", data_source=made.data_source)
    rows = pq.read_table(tmp_path / "data" / "verl" / "train.parquet").to_pylist()
    function = {"path": "pkg://ktae.experiments.verl.reward", "name": "compute_score"}
    score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": function}}))
    for row, problem in zip(rows, task_of(recipe).train_rows(), strict=True):
        truth, right = row["reward_model"]["ground_truth"], int(problem.answer)
        given = {"data_source": row["data_source"], "ground_truth": truth, "extra_info": {}}
        assert score(solution_str=f"It is {right}.", **given) == outcome(score=1, acc=1)
        assert score(solution_str=f"It is {right + 1}.", **given) == outcome()
        assert score(solution_str="No idea.", **given) == outcome(unanswered=1)


def test_a_reward_of_the_user_s_own(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def half(response, answer): return {'7': 0.5}.get(response)\n")
    recipe = Recipe.model_validate({"name": "x", "steps": 1, "reward": f"{file}:half"})
    path, arguments = task_of(recipe).verl_reward()
    assert path == "pkg://ktae.experiments.verl.reward"
    assert compute_score("anything", "7", "8", **arguments) == outcome(score=0.5, acc=0.5)
    assert compute_score("anything", "8", "8", **arguments) == outcome(undecided=1)
    with pytest.raises(InputError):
        task_of(recipe.model_copy(update={"reward": f"{file}:absent"}))
