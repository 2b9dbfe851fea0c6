"""The rollouts that come with ktae: read by the commands, and by the names of `ktae`."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ktae
from ktae.cli import app
from ktae.rollouts import EXAMPLE

pytest.importorskip("tokenizers", reason="needs the extra 'report'")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_read_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sum(file.stat().st_size for file in EXAMPLE.iterdir()) < 300_000
    assert "VERDICT" in run("validate", "--example")
    assert "␣=" in run("score", "--example", "-o", "scores.parquet"), "tokens, and not words"
    assert pq.read_table("scores.parquet").num_rows == 1536
    assert "85 + 87" in run("show", "--example", "--step", "10", "--group", "6")
    run("report", "--example", "--no-regrade")
    assert Path("report.html").stat().st_size > 100_000


@pytest.mark.parametrize(
    ("inputs", "said"), [([], "neither INPUT nor"), (["a.jsonl", "--example"], "INPUT and")]
)
def test_the_example_or_an_input(inputs: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["score", *inputs])
    assert isinstance(result.exception, ktae.InputError) or said in result.output
    assert said in str(result.exception) + result.output


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        ktae.reed  # noqa: B018


def test_models_are_compared_by_what_they_wrote(tmp_path: Path) -> None:
    pytest.importorskip("math_verify", reason="needs the extra 'eval'")
    for name, right in (("a", 2), ("b", 7)):
        lines = [
            json.dumps({"group": i, "response": f"The answer is {said}.", "answer": str(i)})
            for i in range(8)
            for said in [i if i < right else -1]
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    (row,) = ktae.compare(tmp_path / "a.jsonl", tmp_path / "b.jsonl", workers=1)
    assert (row.mean_a, row.mean_b, row.up, row.down) == (0.25, 0.875, 5, 0)
    assert row.p_value == pytest.approx(2 / 2**5), "all five in one direction"
