"""The five minutes of docs/index.md: every command is run, on what the page makes and names."""

import json
import shlex
from pathlib import Path

import pages
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ktae.cli import app

tokenizers = pytest.importorskip("tokenizers", reason="the page installs the extra 'report'")
pytest.importorskip("jinja2", reason="the page installs the extra 'report'")

HUB_NAME = "Qwen/Qwen2.5-Math-1.5B"


def run(command: str) -> str:
    program, *arguments = shlex.split(command, comments=True)
    assert program == "ktae", command
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's script has been run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (script,) = pages.blocks("index", "python")
    exec(script, {})
    return tmp_path


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """A folder with a tokenizer of words, in place of a model's."""
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    rows = map(json.loads, (tmp_path / "rollouts.jsonl").read_text("utf-8").splitlines())
    trainer = tokenizers.trainers.WordLevelTrainer(special_tokens=["?"])
    made.train_from_iterator([row["response"] for row in rows], trainer)
    (tmp_path / "tokenizer").mkdir()
    made.save(str(tmp_path / "tokenizer" / "tokenizer.json"))
    return "tokenizer"


def test_every_command(folder: Path, tokenizer: str) -> None:
    lines = [line for block in pages.blocks("index", "sh") for line in block.splitlines()]
    install = "pip install '.[report]'   # in a checkout: ktae is in no package index yet"
    assert lines[:2] == [install, "python make_dump.py"]
    own = {HUB_NAME: tokenizer, "DUMP": "rollouts.jsonl", "MODEL": tokenizer}
    printed = {}
    for line in lines[2:]:
        for words, ours in own.items():
            line = line.replace(words, ours)
        printed[line.split()[1]] = run(line)
    assert list(printed) == ["show", "report", "score", "validate", "permutation-test"]
    assert "rollout 4: reward 0" in printed["show"] and "words" in printed["show"]
    assert "3 + 4 * 2" in printed["show"]
    assert "6 rollouts" in printed["report"]
    assert (folder / "report.html").stat().st_size > 50_000
    credit = pq.read_table(folder / "scores.parquet")["credit"].to_pylist()
    assert [len(row) for row in credit] == [7, 5, 6, 11, 7, 9]
    assert credit[0][4] > 0.4 and credit[3][2] < -0.4, "8 and 4"
    assert "no pair can have p below .05" in printed["permutation-test"]


def test_the_table_that_score_prints(folder: Path, shared_data: Path) -> None:
    command = next(
        line
        for block in pages.blocks("index", "sh")
        for line in block.splitlines()
        if HUB_NAME in line
    )
    printed = run(command.replace(HUB_NAME, str(shared_data / "tokenizer_qwen2")))
    (on_the_page,) = pages.blocks("index", "text")
    found = [line.split() for line in printed.splitlines()]
    for line in on_the_page.splitlines():
        if set(line) - set(" ─"):
            assert line.split() in found, line
