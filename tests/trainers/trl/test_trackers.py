"""Metrics and each step's strongest tokens in trackio and wandb: both for real, neither online."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import extras
import numpy as np
import pytest
import torch

from ktae.trainers import strongest
from ktae.trainers.metrics import Seen

INSTALLED = [name for name in strongest.TRACKERS if extras.installed(name)]
SCRIPT = Path(__file__).with_name("tracked_training.py")


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """A folder with whatever the trackers that are installed have left of one training."""
    if not INSTALLED:
        pytest.skip("needs the extra 'trackio' or 'wandb'")
    folder = tmp_path_factory.mktemp("tracked")
    environment = os.environ | {
        "TRACKIO_DIR": str(folder / "trackio"),
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder),
        "WANDB_SILENT": "true",
        "WANDB_PROJECT": "tests",
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, str(folder / "out"), *INSTALLED],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def check_rows(rows):
    """As dicts by column: the strongest first, and each total is credit times count."""
    totals = [abs(row["total"]) for row in rows]
    assert totals
    assert totals == sorted(totals, reverse=True)
    for row in rows:
        assert row["total"] == pytest.approx(row["credit"] * row["count"])
        assert row["count"] >= row["correct"] + row["incorrect"] > 0
        assert row["token"]


@pytest.mark.nightly
def test_trackio(tracked):
    extras.require("trackio")
    with sqlite3.connect(tracked / "trackio/tests.db") as file:
        found = file.execute("select run_name, metrics from metrics order by id").fetchall()
    assert {name for name, _ in found} == {"tiny"}
    logged = [json.loads(line) for _, line in found]
    assert sum("train/credit/mean_abs" in line for line in logged) == 2
    tables = [line for line in logged if strongest.NAME in line]
    assert [line["train/global_step"] for line in tables] == [1, 2]
    for line in tables:
        assert line[strongest.NAME]["_type"] == "trackio.table"
        check_rows(line[strongest.NAME]["_value"])


@pytest.mark.nightly
def test_wandb(tracked):
    extras.require("wandb")
    (run,) = (tracked / "wandb").glob("offline-run-*")
    (history,) = run.glob("*.wandb")  # protocol buffers, as they are sent to a server
    assert history.read_bytes().count(b"train/credit/mean_abs") >= 2
    tables = list((run / "files/media/table").rglob("strongest_tokens_*.json"))
    assert len(tables) == 2
    for table in tables:
        content = json.loads(table.read_text())
        assert content["columns"] == list(strongest.COLUMNS)
        check_rows([dict(zip(content["columns"], row, strict=True)) for row in content["data"]])


def seen():
    ids = torch.tensor([[1, 1, 2, 0], [2, 3, 3, 3], [3, 9, 9, 9]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.bool)
    credit = torch.tensor([[0.5, 0.25, -0.5, 9], [-0.5, -1, -1, 0], [-0.25, 9, 9, 9]])
    correct = torch.tensor([1.0, 0.0, float("nan")])
    groups = torch.zeros(3, dtype=torch.long)
    return Seen(ids, mask, correct, correct, groups, credit, slice(None))


def test_sums_of_tokens():
    """Masked places count nowhere; a rollout without a verdict counts its places alone."""
    sums = strongest.token_sums(seen())
    expected = np.array([[1, 2, 3], [0.75, -1, -2.25], [2, 2, 4], [1, 1, 0], [0, 1, 1]])
    np.testing.assert_allclose(sums, expected)
    np.testing.assert_allclose(
        strongest.merged([sums, sums]), expected * np.array([[1], [2], [2], [2], [2]])
    )
    none = seen()
    none.mask[:] = False
    assert strongest.token_sums(none).size == 0
    # A slow tokenizer has no texts and stops nothing.
    rows = strongest.rows_of(sums, object())
    assert rows[0] == ["⟨#3⟩", 3, -2.25 / 4, 4, -2.25, 0, 1] and len(rows) == 3


def test_markdown_means_nothing_in_trackio(monkeypatch):
    """trackio shows texts as Markdown: a token that is a picture of elsewhere stays a text."""
    logged = []
    fake = SimpleNamespace(
        context_vars=SimpleNamespace(current_run=SimpleNamespace(get=lambda: "a run")),
        Table=lambda columns, data: data,
        log=logged.append,
    )
    monkeypatch.setitem(sys.modules, "trackio", fake)
    strongest.log(["trackio"], [["![](http://x.y/<b>)", 1, 0.5, 1, 0.5, 1, 0]])
    (((token, *_),),) = (content[strongest.NAME] for content in logged)
    assert token == r"\!\[\]\(http\:\/\/x\.y\/\<b\>\)"


def test_nothing_is_sent_without_a_run(monkeypatch):
    fake = SimpleNamespace(run=None)  # whatever else is asked of it is an error
    monkeypatch.setitem(sys.modules, "wandb", fake)
    strongest.log(["wandb"], [["a", 1, 0.5, 1, 0.5, 1, 0]])
