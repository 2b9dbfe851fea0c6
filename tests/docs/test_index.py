"""The five minutes of docs/index.md: every command is run, on what the page makes and names."""

import json
import shlex
from pathlib import Path

import pages
import pytest
import tokenizers
from typer.testing import CliRunner

from ktae.cli import app

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
    commands = [line.replace(HUB_NAME, tokenizer) for line in lines if line.startswith("ktae")]
    printed = [run(line) for line in commands]
    names = ["report", "validate", "score", "show", "report", "validate", "permutation-test"]
    assert [line.split()[1] for line in commands] == names
    assert "VERDICT" in printed[1]
    assert "response 4: reward 0" in printed[3]
    assert (folder / "report.html").stat().st_size > 50_000
    assert "VERDICT" in printed[5]
    assert "no pair could have p below .05" in printed[6]
