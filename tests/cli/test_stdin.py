"""`-` is standard input, in every command that reads rollouts."""

import io
import json
import types

import pytest

from ktae.cli import options

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
        options.spooled.cache_clear()
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
    assert command(*words).status == 0
