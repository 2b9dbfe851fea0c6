"""The laboratory's languages as ktae uses them: found by entry points, pretrained, trained on."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from extras import require

import ktae.demo
from ktae_lab.languages.lists import LISTS

require("trl")

RECIPES = Path(__file__).resolve().parents[3] / "recipes/demo"


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """The entry points of ktae-lab, whether or not it is installed."""
    points = {
        language.name: EntryPoint(
            language.name,
            f"ktae_lab.languages.{language.name}:{language.name.upper()}",
            ktae.demo.GROUP,
        )
        for language in (LISTS,)
    }
    monkeypatch.setattr(ktae.demo, "_offered", lambda: points)


@pytest.mark.parametrize("response", ["answer [ f a c ]", "answer [ c a f ]", "answer"])
def test_verl_s_reward_of_text(response):
    from ktae.trainers.verl.reward import compute_score

    found = compute_score("ktae/demo-lists", response, "f a c", max_response_length=8)
    assert (found["acc"], found["unanswered"]) == (
        float("f a c" in response),
        float("[" not in response),
    )
