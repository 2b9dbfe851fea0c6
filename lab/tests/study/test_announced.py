"""What was announced before the first run, and what it means that a file has changed since."""

from pathlib import Path

import pytest
from finished import CONTRAST, comparisons
from small import CONTENT, LAB

from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices
from ktae_lab.study.folder import StudyFolder

SEEDS = list(range(1, 8))
OTHER = {"grpo": CONTENT["methods"]["grpo-ktae"]}


def test_a_contrast_that_was_not_announced_is_exploratory(finished, make_study):
    less = [CONTRAST | {"outcomes": ["mean_accuracy"]}]
    before = make_study(seeds=SEEDS, contrasts=less)
    sampled, mean = comparisons(finished(announced=before))
    assert (mean.announced, mean.note) == (True, "")
    assert mean.corrected == mean.p_value, "a family of one"
    assert not sampled.announced
    assert "not announced as confirmatory before the first run" in sampled.note


def test_an_announced_contrast_that_is_gone_counts_in_holms_correction(finished, make_study):
    before = make_study(seeds=SEEDS)
    less = [CONTRAST | {"outcomes": ["mean_accuracy"]}]
    mean, gone = comparisons(finished(announced=before, contrasts=less))
    assert gone.comparison.outcome == "sampled_accuracy"
    assert (gone.announced, gone.planned, gone.corrected) == (True, 0, None)
    assert mean.corrected == pytest.approx(2 * mean.p_value)


def test_an_announced_contrast_that_is_called_exploratory_now_counts_as_well(finished, make_study):
    before = make_study(seeds=SEEDS)
    now = [CONTRAST | {"kind": "exploratory"}]
    compared = comparisons(finished(announced=before, contrasts=now))
    assert [one.announced for one in compared] == [False] * 2 + [True] * 2


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"seeds": SEEDS[:6]}, "seeds"),
        ({"overrides": {"steps": 4}}, "the recipe of grpo-ktae, the recipe of grpo"),
        ({"tasks": {"sums": {}}}, ""),
        ({"outcomes": {"sampled_accuracy": {"summary": "after.greedy_accuracy"}}}, "outcomes."),
        ({"demo_seeds": [0]}, "demo_seeds"),
        ({"methods": CONTENT["methods"] | OTHER}, "the recipe of grpo"),
    ],
)
def test_what_decides_on_the_numbers_may_not_change_after_the_announcement(
    finished, make_study, changes, what
):
    before = make_study(seeds=SEEDS)
    sampled = comparisons(finished(announced=before, **changes))[0]
    assert not sampled.announced
    expected = f"changed since the announcement: {what}" if what else "without this task"
    assert expected in sampled.note


def test_a_recipe_that_is_edited_after_the_announcement(finished, tmp_path):
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
    compared = comparisons(study)
    notes = {one.comparison: one.note for one in compared if one.planned}
    for comparison, note in notes.items():
        place = f"{comparison.task}/grpo-ktae"
        changed = f"changed since the announcement: the recipe of {place}"
        assert note == ("" if comparison.treatment == "other" else changed)
    assert [one.announced for one in compared if not one.planned] == [True] * 4


def test_a_recipe_whose_file_moves_is_the_same(finished, make_study, tmp_path):
    before = make_study(seeds=SEEDS)
    moved = tmp_path / "elsewhere.yaml"
    moved.write_text(Path(CONTENT["methods"]["grpo"]["recipe"]).read_text())
    methods = CONTENT["methods"] | {"grpo": {"recipe": str(moved)}}
    compared = comparisons(finished(announced=before, methods=methods))
    assert [one.announced for one in compared] == [True] * 2


@pytest.mark.parametrize("study", ["agents", "decisive", "real-model", "rivals"])
def test_the_committed_announcements_hold_for_the_committed_matrices(study):
    """Whose form has changed since: base models and labels stood elsewhere."""
    path = LAB / f"matrices/{study}.yaml"
    matrix = matrices.load(path)
    announced = StudyFolder(LAB / "results" / study).announcement()
    assert announced.confirmatory == [
        (contrast.treatment, contrast.baseline, outcome)
        for contrast in matrix.contrasts
        if contrast.kind == "confirmatory"
        for outcome in contrast.outcomes
    ]
    assert announced.recipes == expansion.recipe_digests(expansion.expand(matrix, path))
