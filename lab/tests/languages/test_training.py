"""The laboratory's languages as ktae uses them: found by entry points, pretrained, trained on."""

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from extras import require

import ktae.demo
from ktae.recipe import load
from ktae.runs import RunFolder
from ktae_lab.languages.lists import LISTS
from ktae_lab.languages.stories import STORIES

require("trl")

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """The entry points of ktae-lab, whether or not it is installed."""
    points = {
        language.name: EntryPoint(
            language.name,
            f"ktae_lab.languages.{language.name}:{language.name.upper()}",
            ktae.demo.GROUP,
        )
        for language in (LISTS, STORIES)
    }
    monkeypatch.setattr(ktae.demo, "_offered", lambda: points)


@pytest.mark.parametrize(("language", "parameters"), [(LISTS, 98_880), (STORIES, 25_786_368)])
def test_the_size_of_base_models(language, parameters):
    from ktae.demo.model import make_model

    assert sum(p.numel() for p in make_model(language, 0).parameters()) == parameters


def test_a_run_of_the_lists(tmp_path):
    """Whose answers are text."""
    from ktae.demo import pretrain
    from ktae.trainers.trl.run import run

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
    recipe = load(RECIPES / "lists/dapo-ktae.yaml", overrides)
    folder, steps = RunFolder(tmp_path / "run"), []
    assert run(recipe, folder, resume=False, on_step=steps.append, note=print) == 0
    assert [line["step"] for line in steps] == [1, 2]
    assert json.loads(folder.summary.read_text())["after"].keys() >= {"greedy_accuracy"}
    rollouts = pq.read_table(folder.rollouts / "step-00002.parquet").to_pylist()
    assert len(rollouts) == 8
    answers = {p.prompt: p.answer for p in LISTS.train_problems(4, seed=0)}
    for row in rollouts:
        assert answers[row["prompt"]] == row["answer"]
        finished = row["token_ids"][-1] == tokenizer.eos_token_id
        assert row["correct"] == LISTS.is_correct(row["response"], row["answer"], finished)


@pytest.mark.parametrize("response", ["answer [ f a c ]", "answer [ c a f ]", "answer"])
def test_verl_s_reward_of_text(response):
    from ktae.trainers.verl.reward import compute_score, demo_source

    found = compute_score(demo_source("lists"), response, "f a c", max_response_length=8)
    assert (found["acc"], found["unanswered"]) == (
        float("f a c" in response),
        float("[" not in response),
    )
