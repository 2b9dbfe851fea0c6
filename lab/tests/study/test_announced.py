"""What was announced before the first run, and what it means that a file has changed since."""

import json
from pathlib import Path

import pytest
from finished import CONTRAST, comparisons
from small import CONTENT

from ktae_lab.study import cells as expansion
from ktae_lab.study.contrasts import in_words

SEEDS = list(range(1, 8))
OTHER = {"grpo": CONTENT["methods"]["grpo-ktae"]}


def test_a_contrast_that_was_not_announced_is_exploratory(finished, make_study):
    less = [CONTRAST | {"outcomes": ["mean_accuracy"]}]
    before = make_study(seeds=SEEDS, contrasts=less)
    sampled, mean = comparisons(finished(announced=before))
    assert (mean.kind, mean.note, mean.family) == ("confirmatory", "", 1)
    assert (sampled.kind, sampled.family) == ("exploratory", 1)
    assert "not announced as confirmatory before the first run" in sampled.note


def test_an_announced_contrast_that_is_gone_counts_in_holms_correction(finished, make_study):
    before = make_study(seeds=SEEDS)
    less = [CONTRAST | {"outcomes": ["mean_accuracy"]}]
    study = finished(announced=before, contrasts=less)
    mean, gone = comparisons(study)
    assert (gone.outcome, gone.kind, gone.planned, gone.corrected) == (
        "sampled_accuracy", "confirmatory", 0, None,
    )  # fmt: skip
    assert mean.family == gone.family == 2
    assert mean.corrected == pytest.approx(2 * mean.p_value)
    assert in_words(gone).endswith("announced, and not in the matrix as it was announced")


def test_an_announced_contrast_that_is_called_exploratory_now_counts_as_well(finished, make_study):
    before = make_study(seeds=SEEDS)
    now = [CONTRAST | {"kind": "exploratory"}]
    found = comparisons(finished(announced=before, contrasts=now))
    assert [one.kind for one in found] == ["exploratory"] * 2 + ["confirmatory"] * 2


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"seeds": SEEDS[:6]}, "seeds"),
        ({"overrides": {"steps": 4}}, "the recipe of grpo-ktae, the recipe of grpo"),
        ({"tasks": {"sums": {}}}, ""),
        ({"outcomes": {"sampled_accuracy": {"summary": "after.greedy_accuracy"}}}, "outcomes."),
        ({"base_models": {"demo_seeds": [0], "pairing": "cycled"}}, "base_models"),
        ({"methods": CONTENT["methods"] | OTHER}, "the recipe of grpo"),
    ],
)
def test_what_decides_on_the_numbers_may_not_change_after_the_announcement(
    finished, make_study, changes, what
):
    before = make_study(seeds=SEEDS)
    sampled = comparisons(finished(announced=before, **changes))[0]
    assert sampled.kind == "exploratory"
    expected = f"changed since the announcement: {what}" if what else "without this task"
    assert expected in sampled.note


def test_the_name_of_an_outcome_on_figures_may_change(finished, make_study):
    renamed = {"sampled_accuracy": {"summary": "after.sampled_accuracy", "label": "accuracy"}}
    found = comparisons(finished(announced=make_study(seeds=SEEDS), outcomes=renamed))
    assert [one.kind for one in found] == ["confirmatory"] * 2


def test_an_announcement_without_its_matrix_holds_what_it_names(finished, make_study):
    study = finished()
    content = json.loads(study.folder.announced.read_text())
    study.folder.announced.write_text(json.dumps(content | {"matrix": None}))
    assert [one.kind for one in comparisons(study)] == ["confirmatory"] * 2


@pytest.fixture
def edited(finished, tmp_path):
    """A study on two tasks whose recipe of `grpo-ktae` was edited after the announcement, when
    there were no runs; `other` compares two methods that it has nothing to do with."""
    source = CONTENT["methods"]["grpo-ktae"]["recipe"]
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(Path(source).read_text())
    methods = CONTENT["methods"] | {
        "grpo-ktae": {"recipe": str(recipe)},
        "other": {"recipe": source},
    }
    other = CONTRAST | {"treatment": "other", "outcomes": ["sampled_accuracy"]}
    runs = [f"{task}/{m}/seed{seed}" for task in ("a", "b") for m in methods for seed in SEEDS]
    study = finished(
        leave_out=runs, methods=methods, contrasts=[CONTRAST, other], tasks={"a": {}, "b": {}}
    )
    recipe.write_text(recipe.read_text() + "trl: {top_entropy: 0.5}\n")
    study.cells = expansion.expand(study.matrix, study.path)
    return study


def test_a_recipe_that_is_edited_after_the_announcement(edited):
    found = comparisons(edited)
    notes = {(one.treatment, one.outcome, one.task): one.note for one in found if one.planned}
    for outcome in CONTRAST["outcomes"]:
        for task in ("a", "b"):
            assert notes.pop(("grpo-ktae", outcome, task)) == (
                f"changed since the announcement: the recipe of {task}/grpo-ktae"
            )
    assert notes == {("other", "sampled_accuracy", task): "" for task in ("a", "b")}
    assert [one.kind for one in found if not one.planned] == ["confirmatory"] * 4


def test_a_recipe_whose_file_moves_is_the_same(finished, make_study, tmp_path):
    before = make_study(seeds=SEEDS)
    moved = tmp_path / "elsewhere.yaml"
    moved.write_text(Path(CONTENT["methods"]["grpo"]["recipe"]).read_text())
    methods = CONTENT["methods"] | {"grpo": {"recipe": str(moved)}}
    found = comparisons(finished(announced=before, methods=methods))
    assert [one.kind for one in found] == ["confirmatory"] * 2


def test_an_announcement_without_recipes_says_nothing_about_them(edited):
    content = json.loads(edited.folder.announced.read_text())
    assert content.pop("recipes").keys() == {
        f"{task}/{method}" for task in ("a", "b") for method in ("grpo", "grpo-ktae", "other")
    }
    edited.folder.announced.write_text(json.dumps(content))
    assert {one.kind for one in comparisons(edited)} == {"confirmatory"}
