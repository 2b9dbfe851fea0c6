"""From run folders to rows, comparisons and a figure."""

import shutil
import signal
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from finished import ACCURACY, CONTRAST, comparisons
from small import CONTENT, invoke

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.inference import Interval, holm, sign_flip_p_value
from ktae_lab.intervals import mean_interval
from ktae_lab.study import results, runner
from ktae_lab.study.matrix import Outcome
from ktae_lab.study.results import measure

EXPECTED = np.subtract(ACCURACY["grpo-ktae"], ACCURACY["grpo"])


def test_differences_are_paired_by_seed(finished):
    compared = comparisons(finished())
    first, second = compared
    assert first.comparison.outcome == "sampled_accuracy"
    np.testing.assert_allclose(first.differences, EXPECTED)
    assert first.interval == pytest.approx(mean_interval(EXPECTED))
    assert first.p_value == sign_flip_p_value(EXPECTED)
    # The curve is accuracy × (1, 2, 3), so its mean is twice the accuracy.
    np.testing.assert_allclose(second.differences, 2 * EXPECTED)
    assert [one.corrected for one in compared] == holm([one.p_value for one in compared])


def test_a_pair_without_one_of_its_runs_is_left_out(finished):
    first, _ = comparisons(finished(leave_out=["grpo/seed2", "grpo-ktae/seed5"]))
    np.testing.assert_allclose(first.differences, np.delete(EXPECTED, [1, 4]))
    assert (first.interval, first.p_value, first.corrected) == (None, None, None), "six are needed"


@pytest.mark.parametrize(
    ("corrected", "interval", "shown"),
    [
        (0.04, Interval(0.02, 0.01, 0.03), True),
        (0.04, Interval(0.02, -0.01, 0.05), False),
        (0.06, Interval(0.02, 0.01, 0.03), False),
        (None, None, False),
    ],
)
def test_a_difference_is_shown_by_interval_and_test(finished, corrected, interval, shown):
    one = comparisons(finished())[0]
    assert one._replace(corrected=corrected, interval=interval).shown is shown


def test_announced_comparisons_without_pairs_count_in_holms_correction(finished):
    methods = CONTENT["methods"] | {"other": CONTENT["methods"]["grpo"]}
    contrasts = [CONTRAST, CONTRAST | {"treatment": "other", "outcomes": ["sampled_accuracy"]}]
    missing = [f"other/seed{seed}" for seed in range(1, 8)]
    compared = comparisons(finished(leave_out=missing, methods=methods, contrasts=contrasts))
    # The two that could be computed have the same p: three times it, for three announced.
    assert compared[0].corrected == pytest.approx(3 * compared[0].p_value)
    assert (len(compared[2].differences), compared[2].corrected) == (0, None)


def test_base_models_are_told_apart(finished):
    first, _ = comparisons(finished(demo_seeds=[0, 1]))
    np.testing.assert_allclose(first.differences, EXPECTED)
    assert list(first.differences.index.get_level_values("base_model")) == [
        f"demo:{i % 2}" for i in range(7)
    ]


def test_what_a_study_writes(finished):
    study = finished(leave_out=["grpo/seed2"])
    failed = next(cell for cell in study.cells if cell.name == "grpo/seed2")
    study.folder.beside(failed, ".json").write_text('{"error": "exit status 1\\nValueError: no"}')
    compared = results.write(study.matrix, study.cells, study.folder)
    rows = pd.read_csv(study.folder.runs_csv).set_index(["method", "seed"])
    assert len(rows) == 14
    assert rows.loc[("grpo", 3), "outcome.sampled_accuracy"] == 0.6
    assert rows.loc[("grpo", 3), "after.greedy_accuracy"] == 0.7
    assert rows.loc[("grpo", 2), "state"] == "failed"
    assert rows.loc[("grpo", 2), "error"] == "ValueError: no"
    assert np.isnan(rows.loc[("grpo", 2), "outcome.sampled_accuracy"])
    written = pd.read_csv(study.folder.comparisons_csv)
    assert written["pairs"].tolist() == [6, 6] and written["planned"].tolist() == [7, 7]
    assert written["mean"].tolist() == [round(one.differences.mean(), 4) for one in compared]
    assert ET.parse(study.folder.figure).getroot().tag.endswith("svg")
    assert "grpo-ktae - grpo" in study.folder.figure.read_text()


def test_no_results_of_a_recipe_that_is_edited_while_the_study_runs(finished):
    study = finished()
    cell = study.cells[0]
    recipe = cell.recipe.model_copy(update={"steps": 9})
    study.folder.run_folder(cell).recipe.write_text(recipes.dump(recipe))
    with pytest.raises(InputError, match=r"made with another recipe: steps \(9 there, 3 here\)"):
        results.write(study.matrix, study.cells, study.folder)
    assert not study.folder.runs_csv.exists()


def test_outcomes_of_curves():
    lines = [{"step": t, "rewards/correct/mean": value} for t, value in enumerate((0.1, 0.2, 0.6))]
    assert measure(Outcome(curve="accuracy"), {}, lines) == pytest.approx(0.3)
    assert measure(Outcome(curve="accuracy", last=2), {}, lines) == pytest.approx(0.4)
    assert measure(Outcome(curve="accuracy", last=4), {}, lines) is None
    assert measure(Outcome(curve="entropy"), {}, lines) is None
    assert measure(Outcome(summary="after.x"), {"after.x": 2}, lines) == 2
    assert measure(Outcome(summary="after.y"), {"after.x": 2}, lines) is None


def test_the_command_lists_and_summarises(finished):
    study = finished(leave_out=["grpo/seed2"])
    listed = invoke(study, "--dry-run")
    assert listed.exit_code == 0, listed.output
    assert "grpo/seed2 (not started)" in listed.output
    assert "14 runs, 42 training steps" in listed.output
    done = invoke(study, "--results-only")
    assert done.exit_code == 0, done.output
    assert "13 runs finished" in done.output and "1 runs not started" in done.output
    assert "6 of 7" in done.output


@pytest.fixture
def clone(finished):
    """A study with results and without `runs/`, which git ignores."""
    study = finished()
    results.write(study.matrix, study.cells, study.folder)
    shutil.rmtree(study.folder.runs)
    return study


def test_results_of_more_runs_are_left_alone(clone, monkeypatch):
    before = clone.folder.runs_csv.read_bytes()
    refused = invoke(clone, "--results-only")
    assert "runs.csv is of 14 finished runs, and" in str(refused.exception)
    monkeypatch.setattr(runner, "run", lambda *_, **__: signal.SIGTERM)
    stopped = invoke(clone, "--resume")
    assert stopped.exit_code == 143, stopped.output
    assert "interrupted; --resume continues" in stopped.output
    assert clone.folder.runs_csv.read_bytes() == before
