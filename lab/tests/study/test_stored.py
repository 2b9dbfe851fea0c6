"""A study read from its results alone."""

import pytest
from small import LAB

from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices
from ktae_lab.study.collect import collect
from ktae_lab.study.contrasts import compare
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.results import count, write
from ktae_lab.study.stored import read_runs, read_trained_by

STUDIES = sorted(path.parent for path in (LAB / "results").glob("*/announced.json"))


def test_what_is_read_is_what_was_written(make_study):
    """All but the curves that are not kept; recipes are not looked at."""
    study = make_study(tasks={"sums": {}, "lists": {}})
    study.run()
    failed = study.cells[1]
    study.folder.start_afresh(failed)
    study.folder.add_to_record(failed, error="exit status 1\nValueError: no", failures=1)
    write(study.matrix, study.cells, study.folder)
    runs = collect(study.cells, study.folder, study.matrix.all_outcomes)
    found = read_runs(study.matrix, study.folder, with_curves=True)
    assert [run.cell.path for run in found] == [run.cell.path for run in runs]
    assert [run.state for run in found] == [run.state for run in runs]
    assert found[1].state is State.FAILED and found[1].why_missing == "failed (ValueError: no)"
    assert count(found) == count(runs) and count(found)["failed"] == 1
    for mine, theirs in zip(found, runs, strict=True):
        assert known(mine) == pytest.approx(known(theirs), rel=1e-6)
        assert [line["step"] for line in mine.lines] == [line["step"] for line in theirs.lines]
        assert mine.digest == theirs.digest
    announced = study.folder.announcement()
    recipes = expansion.recipe_digests(study.cells)
    again = compare(study.matrix, found, announced, recipes=None)
    for one, other in zip(again, compare(study.matrix, runs, announced, recipes), strict=True):
        assert (one.kind, one.seeds, one.missing) == (other.kind, other.seeds, other.missing)
        assert one.difference == pytest.approx(other.difference, rel=1e-5)
    (kind,) = read_trained_by(study.folder)
    assert kind["runs"] == len(runs) - 1


def known(run):
    return {name: value for name, value in run.outcomes.items() if value is not None}


@pytest.mark.parametrize("folder", STUDIES, ids=lambda path: path.name)
def test_committed_studies_are_as_they_were_announced(folder):
    """Recipes with all overrides, seeds, base models, outcomes: by the digests of then."""
    path = LAB / "matrices" / f"{folder.name}.yaml"
    matrix = matrices.load(path)
    announced = StudyFolder(folder).announcement()
    digests = expansion.recipe_digests(expansion.expand(matrix, path))
    for one in announced.comparisons(matrix):
        assert announced.why_exploratory(matrix, digests, one) == "", one
