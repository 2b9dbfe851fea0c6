"""The reward function that verl calls."""

import pyarrow.parquet as pq
import pytest

from ktae.errors import InputError
from ktae.experiments import recipe as recipes
from ktae.experiments.tasks import task_of
from ktae.experiments.tasks.base import write
from ktae.experiments.verl.overrides import OWN_REWARD
from ktae.experiments.verl.reward import compute_score
from ktae.trainers.verl import reward as mathematics


@pytest.fixture
def recipe_with(tmp_path):
    """The file of a recipe with these keys."""

    def recipe_with(**keys):
        recipe = recipes.Recipe.model_validate({"name": "x", "steps": 1} | keys)
        file = tmp_path / f"{len([*tmp_path.iterdir()])}.yaml"
        file.write_text(recipes.dump(recipe))
        return str(file)

    return recipe_with


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
def test_the_demo(response, expected, recipe_with):
    recipe = recipe_with(rollout={"max_response_length": 8})
    assert compute_score("ktae/demo", response, "7", {"index": 0}, recipe=recipe) == expected


def test_the_reward_is_the_verdict_of_ktaes_grader():
    for response, answers, scores in (
        (r"so \boxed{\frac{1}{2}}", "0.5", {"score": 1, "acc": 1}),
        (r"so \boxed{2}", ["3", "x"], {}),
        ("no idea", "1", {"unanswered": 1}),
        (r"\boxed{1}", r"\frac{1}{", {"undecided": 1}),
    ):
        assert mathematics.compute_score("math12k", response, answers, {}) == outcome(**scores)


def test_verl_s_own_loader_finds_it_and_it_scores_reasoning_gym_s_rows(verl, tmp_path, recipe_with):
    """From the Parquet file that a recipe's run writes, by the keys that verl passes on."""
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    file = recipe_with(task={"source": "reasoning-gym", "name": "chain_sum", "instruction": "Hm."})
    task = task_of(recipes.load(file))
    write({"train": task.train_rows()}, tmp_path / "data", data_source=task.data_source)
    rows = pq.read_table(tmp_path / "data" / "verl" / "train.parquet").to_pylist()
    function = {"path": OWN_REWARD, "name": "compute_score", "reward_kwargs": {"recipe": file}}
    score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": function}}))
    for row, problem in zip(rows, task.train_rows(), strict=True):
        truth, right = row["reward_model"]["ground_truth"], int(problem.answer)
        given = {"data_source": row["data_source"], "ground_truth": truth, "extra_info": {}}
        assert score(solution_str=f"It is {right}.", **given) == outcome(score=1, acc=1)
        assert score(solution_str=f"It is {right + 1}.", **given) == outcome()
        assert score(solution_str="No idea.", **given) == outcome(unanswered=1)


def test_a_reward_of_the_user_s_own(tmp_path, monkeypatch, recipe_with):
    """verl's workers run in another folder than the command."""
    (tmp_path / "mine.py").write_text("def half(response, answer): return {'7': 0.5}.get(response)")
    monkeypatch.chdir(tmp_path)
    recipe = recipe_with(reward="mine.py:half")
    monkeypatch.chdir("/")
    assert compute_score("any", "7", "8", recipe=recipe) == outcome(score=0.5, acc=0.5)
    assert compute_score("any", "8", "8", recipe=recipe) == outcome(undecided=1)
    with pytest.raises(InputError):
        task_of(recipes.load(recipe, [f"reward={tmp_path / 'mine.py'}:absent"]))
