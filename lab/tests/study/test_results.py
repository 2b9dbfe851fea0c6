"""From run folders to rows, comparisons and figures."""

import csv
import json
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
from finished import ACCURACY, CONTRAST, comparisons, summarise
from small import CONTENT
from typer.testing import CliRunner

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.inference import Interval, holm, mean_interval, sign_flip_p_value
from ktae_lab.cli import app
from ktae_lab.cli.study import in_words as durations
from ktae_lab.csv_files import read_csv
from ktae_lab.study import figures
from ktae_lab.study.collect import measure
from ktae_lab.study.contrasts import _corrected, in_words
from ktae_lab.study.matrix import Outcome


def test_differences_are_paired_by_seed(finished):
    study = finished()
    found = comparisons(study)
    expected = np.subtract(ACCURACY["grpo-ktae"], ACCURACY["grpo"])
    first, second = found
    assert first.outcome == "sampled_accuracy"
    np.testing.assert_allclose(first.differences, expected)
    assert first.interval == pytest.approx(mean_interval(expected))
    assert first.p_value == sign_flip_p_value(expected)
    # The curve is accuracy × (1, 2, 3), so its mean is twice the accuracy.
    np.testing.assert_allclose(second.differences, 2 * expected)
    assert [one.corrected for one in found] == holm([one.p_value for one in found])
    assert first.family == 2
    assert first.treatment_mean - first.baseline_mean == pytest.approx(expected.mean())
    assert "7 of 7 pairs" in in_words(first)


def test_a_missing_run_is_stated_with_its_reason(finished):
    study = finished(leave_out=["grpo/seed2", "grpo-ktae/seed5"])
    failed = next(cell for cell in study.cells if cell.name == "grpo/seed2")
    study.folder.beside(failed, ".json").write_text('{"error": "exit status 1\\nValueError: no"}')
    found = summarise(study).compared[0]
    assert found.seeds == (1, 3, 4, 6, 7)
    assert found.missing == (
        (2, "grpo: failed (ValueError: no)"),
        (5, "grpo-ktae: not started"),
    )
    assert found.interval is None
    assert found.p_value is None
    assert found.difference == pytest.approx(np.mean([0.05, 0.03, 0.04, -0.01, 0.06]))
    assert "not enough, 5 of 7 pairs; 6 are needed" in in_words(found)
    content = json.loads(study.folder.results.read_text())
    assert content["runs"] == {
        "planned": 14, "not started": 1, "finished": 12, "unfinished": 0, "failed": 1,
        "failed before, run again": 0, "interrupted, resumed": 0,
        "begun again, why not recorded": 0,
    }  # fmt: skip
    assert content["failures"] == [{"run": "grpo/seed2", "error": "ValueError: no"}]


def test_failures_and_interruptions_are_counted_also_when_the_run_has_finished(finished):
    """One failed and was run again, one was interrupted twice, one both; one failed twice. Of two
    that were begun before failures were recorded one was begun again."""
    study = finished(leave_out=["grpo/seed4"])
    records = {
        "grpo/seed1": {"attempts": 2, "failures": 1},
        "grpo/seed2": {"attempts": 3, "failures": 0},
        "grpo/seed3": {"attempts": 3, "failures": 1},
        "grpo/seed4": {"attempts": 2, "failures": 1, "error": "ValueError: no"},
        "grpo/seed5": {"attempts": 2},
        "grpo/seed6": {"attempts": 1},
    }
    for cell in study.cells:
        study.folder.beside(cell, ".json").write_text(json.dumps(records.get(cell.name, {})))
    summarise(study)
    runs = json.loads(study.folder.results.read_text())["runs"]
    assert [runs["failed before, run again"], runs["interrupted, resumed"]] == [3, 2]
    assert runs["begun again, why not recorded"] == 1
    with study.folder.runs_csv.open(newline="") as file:
        rows = {f"{row['method']}/seed{row['seed']}": row for row in csv.DictReader(file)}
    found = [rows[name]["failures_before"] for name in records]
    assert found == ["1", "0", "1", "1", "", "0"]
    assert rows["grpo-ktae/seed1"]["failures_before"] == "0"


def test_too_few_pairs_beside_the_other_comparisons(finished):
    """Seven pairs have a p of 2 / 2^7 at least: as the first of four comparisons that would be
    .0625, as the last, after three of twenty pairs that are surer, .0156."""
    first, second = comparisons(finished())
    assert (first.family, first.too_few, second.too_few) == (2, False, False)
    four = _corrected([first._replace(p_value=0.5)] * 4)
    assert [one.too_few for one in four] == [True] * 4
    surer = [first._replace(p_value=1e-6, seeds=tuple(range(20)))] * 3
    assert [one.too_few for one in _corrected([*surer, first])] == [False] * 4


def test_too_few_pairs_are_said_where_something_is_seen(finished):
    one = comparisons(finished())[0]._replace(corrected=0.2, too_few=True, family=4)
    seen, nothing = Interval(0.02, 0.01, 0.03), Interval(0.02, -0.01, 0.05)
    assert "too few pairs to show a difference among 4" in in_words(one._replace(interval=seen))
    assert "no difference can be shown" in in_words(one._replace(interval=nothing))
    enough = one._replace(interval=seen, too_few=False)
    assert "no difference can be shown" in in_words(enough)


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
    found = comparisons(finished(leave_out=missing, methods=methods, contrasts=contrasts))
    assert [one.family for one in found] == [3, 3, 3]
    # The two that could be computed have the same p: three times it, for three announced.
    assert found[0].corrected == pytest.approx(3 * found[0].p_value)
    assert (found[2].difference, found[2].corrected) == (None, None)


def test_several_base_models_of_a_seed_are_one_unit(finished):
    bases = {"demo_seeds": [0, 1], "pairing": "crossed"}
    study = finished(base_models=bases, leave_out=["grpo/seed3-base1"])
    found = comparisons(study)[0]
    assert found.seeds == (1, 2, 4, 5, 6, 7)
    assert found.missing == ((3, "grpo demo:1: not started"),)
    expected = np.delete(np.subtract(ACCURACY["grpo-ktae"], ACCURACY["grpo"]), 2)
    np.testing.assert_allclose(found.differences, expected)


def test_no_results_of_a_recipe_that_is_edited_while_the_study_runs(finished):
    study = finished()
    cell = study.cells[0]
    recipe = cell.recipe.model_copy(update={"steps": 9})
    study.folder.run_folder(cell).recipe.write_text(recipes.dump(recipe))
    with pytest.raises(InputError, match=r"made with another recipe: steps \(9 there, 3 here\)"):
        summarise(study)
    assert not study.folder.results.exists()


def test_differences_of_each_base_model(finished):
    bases = {"demo_seeds": [0, 1], "pairing": "cycled"}
    study = finished(base_models=bases)
    found = summarise(study).compared[0]
    expected = np.subtract(ACCURACY["grpo-ktae"], ACCURACY["grpo"])
    assert [(one.base_model, one.seeds) for one in found.by_base_model] == [
        ("demo:0", 4),
        ("demo:1", 3),
    ]
    assert [one.difference for one in found.by_base_model] == pytest.approx(
        [expected[::2].mean(), expected[1::2].mean()]
    )
    content = json.loads(study.folder.results.read_text())
    assert content["comparisons"][0]["by_base_model"][0]["base_model"] == "demo:0"


def test_rows(finished):
    study = finished(leave_out=["grpo/seed2"])
    summarise(study)
    with study.folder.runs_csv.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 14
    by_run = {(row["method"], row["seed"]): row for row in rows}
    assert by_run["grpo", "3"]["outcome.sampled_accuracy"] == "0.6"
    assert by_run["grpo", "3"]["after.greedy_accuracy"] == "0.7"
    assert by_run["grpo", "2"]["state"] == "not started"
    assert by_run["grpo", "2"]["outcome.sampled_accuracy"] == ""
    curves = read_csv(study.folder.curves_csv)
    assert len(curves) == 13 * 3
    assert curves[1] == {
        "task": "", "method": "grpo", "seed": "1", "base_model": "", "step": "2",
        "accuracy": "0.8", "length": "20", "entropy": "0.2",
    }  # fmt: skip


def test_figures_are_svg(finished):
    study = finished(groups={"both": ["grpo", "grpo-ktae"], "one": ["grpo"]})
    pictures = summarise(study).pictures
    names = ["bars-both", "bars-one", "curves-both", "curves-one", "differences"]
    assert sorted(picture.stem for picture in pictures) == names
    for picture in pictures:
        assert ET.parse(picture).getroot().tag.endswith("svg")
    assert "grpo-ktae (7 of 7 runs)" in pictures[0].read_text()
    for picture in pictures:
        assert "mean over seeds of these base models" in picture.read_text()


@pytest.mark.parametrize(
    ("bases", "over"),
    [("abc", figures.Over.BASE_MODELS), ("aba", figures.Over.SEEDS), ("aaa", figures.Over.SEEDS)],
)
def test_figures_say_what_their_means_are_over(bases, over):
    """As planned: both methods on each base model, whatever has finished."""
    runs = [
        SimpleNamespace(cell=SimpleNamespace(task="", method=method, base=base))
        for method in ("grpo", "grpo-ktae")
        for base in bases
    ]
    assert figures.Over.of(runs) is over


def test_without_finished_runs_there_are_no_figures(make_study):
    study = make_study()
    study.folder.open(study.matrix, study.cells, resume=False).close()
    found = summarise(study)
    assert found.pictures == []
    assert {one.difference for one in found.compared} == {None}


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
    arguments = ["study", str(study.path), "--output", str(study.output)]
    listed = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert listed.exit_code == 0, listed.output
    assert "grpo/seed2 (not started)" in listed.output
    assert "14 runs, 42 training steps" in listed.output
    done = CliRunner().invoke(app, [*arguments, "--results-only"])
    assert done.exit_code == 0, done.output
    assert "14 runs planned: 1 not started, 13 finished" in done.output
    assert "6 of 7 pairs" in done.output
    assert study.folder.results.exists()


def test_results_while_the_study_runs(finished):
    study = finished()
    arguments = ["study", str(study.path), "--output", str(study.output)]
    with study.folder.open(study.matrix, study.cells, resume=True):
        busy = CliRunner().invoke(app, [*arguments, "--resume"])
        done = CliRunner().invoke(app, [*arguments, "--results-only"])
    assert "another `ktae-lab study` runs" in str(busy.exception)
    assert done.exit_code == 0, done.output
    assert "14 runs planned: 14 finished" in done.output


@pytest.mark.parametrize(
    ("seconds", "words"), [(20, "20 s"), (100, "2 min"), (3600, "1 h 0 min"), (7500, "2 h 5 min")]
)
def test_durations_in_words(seconds, words):
    assert durations(seconds) == words
