import csv
import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ktae import InputError, bench
from ktae.backends import BACKENDS
from ktae.cli import app

SMALL = bench.random_batch(groups=3, group_size=4, width=32, mean_length=10, vocabulary=50)


def test_random_batch_is_a_step_of_that_shape():
    assert SMALL.token_ids.shape == SMALL.mask.shape == (12, 32)
    assert SMALL.token_ids[SMALL.mask].max() < 50
    lengths = SMALL.mask.sum(axis=1)
    assert (SMALL.mask == (np.arange(32) < lengths[:, None])).all()
    assert SMALL.groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_every_group_of_a_random_batch_is_mixed():
    """The issue asks for it, and a group of one class costs next to nothing."""
    batch = bench.random_batch(groups=500, group_size=2, width=4, mean_length=2, vocabulary=9)
    correct = batch.correct.reshape(500, 2)
    assert (correct.any(axis=1) & ~correct.all(axis=1)).all()
    larger = bench.random_batch(groups=500, width=4, mean_length=2, vocabulary=9)
    shares = larger.correct.reshape(500, 16).mean(axis=1)
    assert len(np.unique(shares)) == 15
    with pytest.raises(InputError, match="group_size is 1; expected at least 2"):
        bench.random_batch(group_size=1)


@pytest.mark.slow
def test_every_contender_is_timed_or_says_why_not():
    names = [*BACKENDS, "copy", "verl grpo", "torch sort"]
    timings = {timing.name: timing for timing in bench.compare(SMALL, names, repeats=3)}
    for name in ("naive", "cpu", "copy"):
        assert len(timings[name].seconds) == 3
        assert timings[name].quantiles[0] <= timings[name].quantiles[1]
    for timing in timings.values():
        assert timing.seconds or timing.note


@pytest.mark.parametrize("name", ["tempo", "entropy-weights"])
def test_any_estimator_is_timed(name):
    (timing,) = bench.compare(SMALL, [name], repeats=2)
    assert len(timing.seconds) == 2 and timing.device == "cpu"
    assert timing.threads == bench._threads("cpu")


def test_rows_say_where_each_contender_computed():
    """`--device` is that of the torch backends; the others stay on the CPU, with their threads."""
    names = ["cpu", "copy", "verl grpo", "torch", "torch sort", "triton"]
    devices = [bench._device(name, "cuda") for name in names]
    assert devices == ["cpu", "cpu", "cpu", "cuda", "cuda", bench._device("triton", "cpu")]
    (timing,) = bench.compare(SMALL, ["copy"], repeats=1, device="cuda")
    assert (timing.device, timing.threads) == ("cpu", 1)
    assert bench._threads("cpu") >= 1


def test_triton_is_timed_where_it_computes(monkeypatch):
    """Plain `ktae bench` on a machine with a GPU: `--device` is cpu, and triton's is not."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    asked = []
    monkeypatch.setattr(bench, "_on", lambda device, batch: asked.append(device) or batch)
    triton = dataclasses.replace(bench.BACKENDS["triton"], requires=(), needs_gpu=False)
    monkeypatch.setitem(bench.BACKENDS, "triton", triton)
    bench._contender("triton", SMALL, "cpu")
    bench._contender("torch", SMALL, "cpu")
    assert asked == ["cuda", "cpu"]


def plot():
    pytest.importorskip("matplotlib")
    path = Path(__file__).parents[1] / "benchmarks/plot.py"
    spec = importlib.util.spec_from_file_location("plot", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lines_of_the_plot_are_of_one_machine_and_its_newest_measurements(tmp_path):
    usual = {"dtype": "int32", "vocabulary": "151643", "device": "cpu", "gpu": "none"}
    usual |= {"cpu": "X", "threads": "2", "p20_s": "1", "p80_s": "9"}

    def row(name, tokens, median, date, **other):
        return usual | {"name": name, "tokens": tokens, "median_s": median, "date": date} | other

    series = plot().series(
        [
            row("cpu", "10", "3", "2026-01-02"),
            row("cpu", "10", "2", "2026-01-01"),
            row("cpu", "10", "4", "2026-01-02"),
            row("cpu", "5", "2", "2026-01-01"),
            row("cpu", "10", "9", "2026-01-03", cpu="Y"),
            row("cpu", "10", "9", "2026-01-03", dtype="int64"),
            row("cpu", "10", "not measured", "2026-01-03"),
            row("triton", "10", "1", "2026-01-03", device="cuda", gpu="H100"),
        ]
    )
    assert series == {
        "ktae, CPU backend, X": [(5, 1, 2, 9), (10, 1, 4, 9)],
        "ktae, CPU backend, Y": [(10, 1, 9, 9)],
        "ktae, triton backend, H100": [(10, 1, 1, 9)],
    }


def test_csv_rows_name_machine_and_versions_and_do_not_invent_numbers(tmp_path):
    path = tmp_path / "results.csv"
    timings = [
        bench.Timing("cpu", [0.1, 0.2, 0.3], threads=2),
        bench.Timing("triton", [], "no GPU", device="cuda"),
    ]
    bench.write_csv(path, SMALL, timings, vocabulary=50)
    bench.write_csv(path, SMALL, timings, vocabulary=50)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["median_s"] for row in rows] == ["0.20000", "not measured"] * 2
    assert [(row["device"], row["threads"]) for row in rows[:2]] == [("cpu", "2"), ("cuda", "1")]
    path.write_text("other,columns\n")
    with pytest.raises(InputError, match="has other columns"):
        bench.write_csv(path, SMALL, timings, vocabulary=50)
    assert all(row["cpu"] and row["date"] and "numpy=" in row["versions"] for row in rows)


def test_command(tmp_path):
    path = tmp_path / "results.csv"
    arguments = ["bench", "cpu", "copy", "--groups", "2", "--repeats", "1", "--output", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "cpu" in result.output
    assert path.read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cpuu"], "no contender 'cpuu'"),
        (["cpu", "--dtype", "int8"], "--dtype is 'int8'"),
        (["cpu", "--device", "gpu"], "--device is 'gpu'"),
        (["cpu", "--output", "no/such/folder/x.csv"], "folder no/such/folder does not exist"),
    ],
)
def test_bad_input(arguments, message):
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_share_of_the_groups_is_mixed():
    for share, expected in ((0.0, 0), (0.25, 5), (0.5, 10), (1.0, 20)):
        batch = bench.random_batch(groups=20, width=4, mean_length=2, vocabulary=9, mixed=share)
        correct = batch.correct.reshape(20, 16)
        assert (correct.any(axis=1) & ~correct.all(axis=1)).sum() == expected


def test_commits_differ_where_all_rounds_do_and_not_by_noise():
    path = Path(__file__).parents[1] / "benchmarks/compare_commits.py"
    spec = importlib.util.spec_from_file_location("compare_commits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rng = np.random.default_rng(0)
    machine = rng.gamma(4, 0.25, 40)  # what a round shares
    same = machine * rng.normal(1, 0.02, (2, 40))
    low, high = module.interval(same, seed=0)
    assert low < 1 < high
    low, high = module.interval(same * [[1.0], [2.0]], seed=0)
    assert low < 2 < high and low > 1
