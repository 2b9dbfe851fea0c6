"""Runs that are taken over from the results of another machine."""

import gzip
import json
import shutil

import pytest
from small import CONTENT, Study, invoke

from ktae.errors import InputError
from ktae.runs import write_json
from ktae_lab.csv_files import read_csv, write_csv
from ktae_lab.study import adopt, results
from ktae_lab.study.cells import KEYS
from ktae_lab.study.folder import State, failures_before


@pytest.fixture
def make_there(make_study, monkeypatch):
    """A finished study with its results and without its runs, as in a clone."""
    monkeypatch.setattr(results.figures, "draw", lambda *_: [])  # seconds each time

    def make(n_measured=0, **changes):
        study = make_study(**changes)
        study.folder.open(study.matrix, study.cells, resume=False).close()
        for i, cell in enumerate(study.cells):
            finish(study.folder, cell, accuracy=(300 + 37 * i % 101) / 1024)
        if n_measured:
            rows = [measured(cell) for cell in study.cells[:n_measured]]
            write_csv(study.folder.validated_csv, rows)
        results.write(study.matrix, study.cells, study.folder)
        shutil.rmtree(study.folder.runs)
        return study

    return make


@pytest.fixture
def there(make_there):
    """One of six runs."""
    return make_there()


def finish(folder, cell, accuracy):
    """A run as it is when it has finished."""
    run = folder.run_folder(cell)
    run.path.mkdir(parents=True)
    machine = {"cpu": "a fast one", "versions": "python=3", "date": f"2026-01-0{cell.seed}"}
    trained = {"seconds": 60.5, "commit": "0123456789ab", "machine": machine}
    folder.add_to_record(cell, attempts=3, failures=1, **trained)
    for step in (1, 2, 3):
        line = {"rewards/correct/mean": accuracy * step, "reward": -accuracy, "entropy": 0.2}
        run.append_metrics({"step": step} | line)
    after = {"sampled_accuracy": accuracy, "greedy_accuracy": accuracy + 0.1}
    seconds = {"credit_seconds_per_step": 0.001 if cell.method == "grpo-ktae" else None}
    write_json(run.summary, {"recipe": cell.method, "seed": cell.seed, "after": after} | seconds)


def measured(cell):
    """Its row of `validated.csv`."""
    scores = {"temperature": 0.5, "accuracy": 0.25, "accuracy_at_1": 0.125, "greedy_accuracy": 0.5}
    return dict(zip(KEYS, cell.key, strict=True)) | {"model": "f00"} | scores


def here(study, tmp_path, **changes):
    """The same matrix, or a changed one, in a new folder."""
    return Study(tmp_path / "here.yaml", tmp_path / "here", CONTENT | changes)


def replace(path, change):
    """Write a CSV in gzip with other lines."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(change(lines)).encode()))


def read(study, there):
    return adopt.read(study.matrix, study.cells, there.folder)


def take_over(study, there):
    """Into its own, new folder."""
    elsewhere = read(study, there)
    announced = elsewhere.announced
    with study.folder.open(study.matrix, study.cells, resume=False, announced=announced):
        return adopt.take_over(elsewhere, study.folder)


def test_results_of_runs_taken_over_are_the_same(make_there, tmp_path):
    """Over tasks and base models; the p-values too, although rounding breaks ties."""
    more = {
        "tasks": {name: {"overrides": {"demo.language": name}} for name in ("sums", "lists")},
        "base_models": {"demo_seeds": [0, 1], "pairing": "crossed"},
        "seeds": list(range(1, 10)),
    }
    there = make_there(**more)
    study = here(there, tmp_path, **more)
    done = invoke(study, "--adopt", str(there.output))
    assert done.exit_code == 0, done.output
    assert f"took over 72 of 72 finished runs from {there.output}" in done.output
    same_rows(read_csv(study.folder.runs_csv), read_csv(there.folder.runs_csv))
    assert read_csv(study.folder.curves_csv) == read_csv(there.folder.curves_csv)
    for name in ("announced.json", "trained_by.json"):
        assert (study.output / name).read_text() == (there.output / name).read_text()
    then, now = (json.loads(f.results.read_text()) for f in (there.folder, study.folder))
    for key in ("runs", "matrix"):
        assert now[key] == then[key], key
    for before, after in zip(then["comparisons"], now["comparisons"], strict=True):
        assert after["difference"] == pytest.approx(before["difference"], rel=1e-5)
        assert after["p_value"] == before["p_value"] < 1
        assert after["kind"] == before["kind"] == "confirmatory"
    assert all(study.folder.record(cell)["adopted"] for cell in study.cells)


def same_rows(mine, theirs):
    """But for the last digit of a curve's mean, whose values have been rounded before."""
    for one, other in zip(mine, theirs, strict=True):
        means = {name: float(one[name]) for name in one if "mean_" in name and one[name]}
        assert means == pytest.approx({name: float(other[name]) for name in means}, rel=1e-6)
        exact = [name for name in other if name not in means]
        assert [one[name] for name in exact] == [other[name] for name in exact]


def test_only_the_others_are_run(there, tmp_path, starts):
    lines = there.folder.runs_csv.read_text().splitlines(keepends=True)
    missing = [line for line in lines if ",grpo-ktae,3," in line]
    unfinished = missing[0].replace("finished", "unfinished")
    there.folder.runs_csv.write_text("".join(unfinished if x in missing else x for x in lines))
    study = here(there, tmp_path)
    assert take_over(study, there) == 5
    assert study.run(resume=True)
    assert starts() == ["grpo-ktae 3 start"]
    assert set(study.states().values()) == {State.FINISHED}
    adopted = [cell.name for cell in study.cells if study.folder.record(cell).get("adopted")]
    assert len(adopted) == 5
    assert "grpo-ktae/seed3" not in adopted


CONTRAST = {"treatment": "grpo-ktae", "baseline": "grpo", "outcomes": ["validated_accuracy"]}


@pytest.mark.parametrize(
    ("n_measured", "contrasts", "n"),
    [(0, [], 6), (2, [], 2), (0, [CONTRAST], 0), (2, [CONTRAST], 2), (6, [CONTRAST], 6)],
)
def test_runs_whose_models_are_still_needed_are_trained_again(
    make_there, tmp_path, n_measured, contrasts, n
):
    """With what was measured of the others."""
    kinds = {"contrasts": [one | {"kind": "exploratory"} for one in contrasts]}
    there = make_there(n_measured, **kinds)
    study = here(there, tmp_path, **kinds)
    assert read(study, there).n_unmeasured == 6 - n
    assert take_over(study, there) == n
    assert [study.folder.state(cell) for cell in study.cells[n:]] == [State.NEW] * (6 - n)
    assert len(study.folder.validated()) == n_measured
    assert study.folder.validated_rows() == there.folder.validated_rows()


def test_what_was_measured_here_is_kept(make_there, tmp_path):
    there = make_there(n_measured=6)
    study = here(there, tmp_path)
    take_over(study, there)
    first, *_ = study.folder.validated_rows()
    write_csv(study.folder.validated_csv, [first | {"accuracy": "0.75"}])
    adopt.take_over(read(study, there), study.folder)
    assert [row["accuracy"] for row in study.folder.validated_rows()] == ["0.75", *["0.25"] * 5]


def test_results_without_a_column_of_failures_do_not_know_them(there, tmp_path):
    """As they were before failures that were run again were recorded."""
    old = [row for row in read_csv(there.folder.runs_csv) if row.pop("failures_before")]
    write_csv(there.folder.runs_csv, old)
    study = here(there, tmp_path)
    take_over(study, there)
    assert [failures_before(study.folder.record(cell)) for cell in study.cells] == [None] * 6


def test_what_has_begun_here_is_kept(there, tmp_path):
    study = here(there, tmp_path)
    elsewhere = read(study, there)
    study.folder.open(
        study.matrix, study.cells, resume=False, announced=elsewhere.announced
    ).close()
    mine = study.folder.run_folder(study.cells[0])
    mine.path.mkdir(parents=True)
    assert adopt.take_over(elsewhere, study.folder) == 5
    assert not mine.summary.exists()


def test_a_clone_goes_on_in_its_own_folder(there):
    before = [read_csv(there.folder.runs_csv), read_csv(there.folder.curves_csv)]
    trained_by = there.folder.trained_by.read_text()
    done = invoke(there, "--resume", "--adopt", str(there.output))
    assert done.exit_code == 0, done.output
    assert "6 runs planned: 6 finished" in done.output
    same_rows(read_csv(there.folder.runs_csv), before[0])
    assert read_csv(there.folder.curves_csv) == before[1]
    assert there.folder.trained_by.read_text() == trained_by


def test_a_longer_matrix_runs_its_new_seeds(there, tmp_path, starts):
    study = here(there, tmp_path, seeds=[1, 2, 3, 4])
    assert take_over(study, there) == 6
    assert study.run(resume=True)
    assert starts() == ["grpo 4 start", "grpo-ktae 4 start"]


def test_a_shorter_matrix_takes_its_own(there, tmp_path):
    study = here(there, tmp_path, seeds=[1, 2])
    done = invoke(study, "--adopt", str(there.output))
    assert f"took over 4 of 6 finished runs from {there.output}" in done.output


def refusal(study, there):
    with pytest.raises(InputError) as error:
        read(study, there)
    return str(error.value)


def test_another_recipe_is_refused(there, tmp_path):
    said = refusal(here(there, tmp_path, overrides={"steps": 4}), there)
    assert "grpo/seed1" in said
    assert "was trained with another recipe than the matrix says" in said


@pytest.mark.parametrize(
    ("step", "words"), [("", "has 2 steps of grpo-ktae/seed3"), ("1", "expected 1 to 3, in order")]
)
def test_missing_steps_are_refused(there, tmp_path, step, words):

    def change(lines):
        last = [lines[-1].replace(",3,,3,", f",3,,{step},")] if step else []
        return lines[:-1] + last

    replace(there.folder.curves_csv, change)
    assert words in refusal(here(there, tmp_path), there)


def test_a_run_that_is_there_twice_is_refused(there, tmp_path):
    lines = there.folder.runs_csv.read_text().splitlines(keepends=True)
    there.folder.runs_csv.write_text("".join([*lines, lines[-1]]))
    assert "runs.csv has a run twice" in refusal(here(there, tmp_path), there)


def test_what_is_no_number_is_refused(there, tmp_path):
    replace(
        there.folder.curves_csv, lambda lines: [line.replace(",0.2\n", ",n/a\n") for line in lines]
    )
    said = refusal(here(there, tmp_path), there)
    assert "curves.csv.gz has 'n/a' where a number is expected" in said


def test_an_outcome_that_its_curves_do_not_give_is_refused(make_there, tmp_path):
    """`curves.csv.gz` has the usual curves alone; nothing is to be lost by taking over."""
    own = {"outcomes": {"kl": {"curve": "kl"}}}
    there = make_there(**own)
    text = there.folder.runs_csv.read_text().splitlines()
    at = text[0].split(",").index("outcome.kl")
    cells = text[1].split(",")
    assert cells[at] == ""
    cells[at] = "0.5"
    there.folder.runs_csv.write_text("\n".join([text[0], ",".join(cells), *text[2:]]) + "\n")
    said = refusal(here(there, tmp_path, **own), there)
    assert "grpo/seed1 has kl = 0.5 in" in said
    assert "nothing by what is in" in said


def test_another_study_is_refused(there, tmp_path):
    said = refusal(here(there, tmp_path, name="other"), there)
    assert f"{there.output} is of the study 'small'; expected 'other'" in said


def test_results_without_a_run_of_the_matrix_are_refused(there, tmp_path):
    said = refusal(here(there, tmp_path, seeds=[7, 8]), there)
    assert "no run of the matrix is among the 6 finished" in said


@pytest.mark.parametrize("name", ["announced.json", "runs.csv", "curves.csv.gz", "trained_by.json"])
def test_a_missing_file_is_named(there, tmp_path, name):
    (there.output / name).unlink()
    said = refusal(here(there, tmp_path), there)
    assert str(there.output / name) in said
    assert "No such file" in said


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("announced.json", "[]", "cannot read"),
        ("runs.csv", "task,method\n", "has no column attempts, base_model, commit"),
        ("curves.csv.gz", "task,method,seed,base_model,step\n", "cannot read"),
        ("trained_by.json", "[1]", "cannot tell"),
    ],
)
def test_broken_results_are_refused(there, tmp_path, name, content, words):
    (there.output / name).write_text(content)
    said = refusal(here(there, tmp_path), there)
    assert str(there.output / name) in said
    assert words in said


def test_runs_of_another_announcement_are_refused(there, tmp_path):
    study = here(there, tmp_path)
    study.folder.open(study.matrix, study.cells, resume=False).close()
    content = json.loads(study.folder.announced.read_text()) | {"date": "2001-01-01"}
    study.folder.announced.write_text(json.dumps(content))
    refused = invoke(study, "--resume", "--adopt", str(there.output))
    assert "is another announcement than that of the runs to take over" in str(refused.exception)
    assert set(study.states().values()) == {State.NEW}


@pytest.mark.parametrize("option", ["--dry-run", "--results-only"])
def test_adopting_is_for_a_study_that_runs(there, tmp_path, option):
    refused = invoke(here(there, tmp_path), "--adopt", str(there.output), option)
    assert "not with --dry-run or --results-only" in str(refused.exception)


def test_a_machine_of_several_kinds_is_one_or_the_other(there, tmp_path):
    (one,) = json.loads(there.folder.trained_by.read_text())
    two = [one | {"runs": 3}, one | {"runs": 3, "versions": "python=4"}]
    there.folder.trained_by.write_text(json.dumps(two))
    record = read(here(there, tmp_path), there).runs[0].record
    assert record["machine"]["cpu"] == "a fast one"
    assert record["machine"]["versions"] == "python=3 or python=4"
    assert record["machine"]["dates"] == ["2026-01-01", "2026-01-03"]
