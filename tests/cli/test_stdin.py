"""`-` is standard input, in every command that reads rollouts."""

import io
import json
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktae.files.inputs import Opened

ROWS = [
    {"group": g, "response": f"so {i}", "reward": i % 2, "answer": "1"}
    for g in "ab"
    for i in range(4)
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.fixture
def stdin(monkeypatch):
    """Sets what standard input holds."""

    def hold(content):
        monkeypatch.setattr(Opened, "stdin", None)
        buffer = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=buffer))

    return hold


@pytest.mark.parametrize(
    "words",
    [
        ["score", "-"],
        ["show", "-"],
        ["report", "-"],
        ["validate", "-", "-e", "paper"],
        ["permutation-test", "-"],
        ["eval", "--regrade", "-"],
        ["compare", "-", "r.jsonl"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_reads_it(command, stdin, tmp_path, words):
    (tmp_path / "r.jsonl").write_bytes(LINES)
    stdin(LINES)
    result = command(*words)
    assert result.status == 0
    assert "stdin.jsonl" not in result.out, "the next command to type names what is still there"


def test_its_format_is_told_by_its_first_bytes(command, stdin):
    packed = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), packed)
    numbers = []
    for content in (LINES, json.dumps(ROWS).encode(), packed.getvalue()):
        stdin(content)
        numbers.append(json.loads(command("score", "-", "--json").out)["groups"])
    assert numbers[0] == numbers[1] == numbers[2] and numbers[0]["mixed"] == 2
