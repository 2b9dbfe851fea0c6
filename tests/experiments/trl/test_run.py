"""`ktae.experiments.trl.run` in this process."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.experiments.demo.model import make_model, make_tokenizer
from ktae.experiments.recipe import load
from ktae.experiments.run_folder import RunFolder
from ktae.experiments.tasks import task_of
from ktae.experiments.trl import run as module
from ktae.experiments.trl import tasks

ROOT = Path(__file__).parents[3]


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Two steps of a tiny model, with more data than they take, as a set of problems has."""
    base = tmp_path / "base"
    model = make_model(seed=0)
    model.generation_config.eos_token_id = 5  # not the tokenizer's, as of some base models
    model.save_pretrained(base)
    make_tokenizer().save_pretrained(base)
    train_set = tasks.train_set
    more = {"steps": 5}
    monkeypatch.setattr(
        tasks, "train_set", lambda x: train_set(task_of(x.recipe.model_copy(update=more)))
    )
    small = ["steps=2", "logging.save_every=1", "logging.eval_problems=2", f"model.path={base}"]
    rollout = ["rollout.group_size=4", "rollout.prompts_per_step=4"]
    return load(ROOT / "recipes/demo/grpo.yaml", [*small, *rollout])


CONFIGS = ("config.json", "generation_config.json")


def test_a_run_that_lost_only_its_end_trains_no_further(recipe, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_summary", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            module.run(recipe, folder, resume=False, on_step=lambda _: None, note=print)
    trained = AutoModelForCausalLM.from_pretrained(folder.model).state_dict()
    configs = [(folder.model / name).read_text() for name in CONFIGS]
    metrics = folder.metrics.read_text()
    # A run that is killed may have come further than its last checkpoint.
    folder.append_metrics({"step": 3, "seconds": 1.0})
    folder.write_rollouts(3, pq.read_table(folder.rollouts / "step-00002.parquet"))

    assert module.run(recipe, folder, resume=True, on_step=lambda _: None, note=print) == 0
    assert folder.metrics.read_text() == metrics
    assert len(list(folder.rollouts.iterdir())) == 2
    again = AutoModelForCausalLM.from_pretrained(folder.model).state_dict()
    assert all(torch.equal(again[name], trained[name]) for name in trained)
    assert [(folder.model / name).read_text() for name in CONFIGS] == configs
    assert json.loads(folder.summary.read_text())["steps"] == 2


def test_a_reward_of_ones_own_and_the_command_that_was_corrected(recipe, tmp_path):
    """The first try fails in the user's function, and its folder is in nobody's way."""
    file, folder = tmp_path / "mine.py", RunFolder(tmp_path / "run")
    file.write_text("def bad(response, answer): return None + 1\n")
    changed = recipe.model_copy(update={"reward": f"{file}:bad"})
    with pytest.raises(TypeError):
        module.run(changed, folder, resume=False, on_step=lambda _: None, note=print)
    other = tmp_path / "other.py"
    other.write_text("def words(response, answer): return len(response.split()) % 3 - 1.0\n")
    changed = recipe.model_copy(update={"reward": f"{other}:words"})
    assert module.run(changed, folder, resume=False, on_step=lambda _: None, note=print) == 0
    rows = [row for path in folder.rollouts.iterdir() for row in pq.read_table(path).to_pylist()]
    tokenizer = AutoTokenizer.from_pretrained(folder.tokenizer)
    texts = [tokenizer.decode(row["token_ids"], skip_special_tokens=True) for row in rows]
    expected = [len(text.split()) % 3 - 1 for text in texts]
    assert [row["reward"] for row in rows] == expected and len(set(expected)) > 1
    assert [row["correct"] for row in rows] == [x > 0 for x in expected]
