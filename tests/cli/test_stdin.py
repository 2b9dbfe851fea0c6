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


@pytest.mark.parametrize(
    "words", ["score -", "report -", "validate - -e paper", "eval --regrade -", "compare - r.jsonl"]
)
def test_every_command_reads_it(command, monkeypatch, tmp_path, words):
    (tmp_path / "r.jsonl").write_bytes(LINES)
    options.spooled.cache_clear()
    buffer = io.BufferedReader(io.BytesIO(LINES))
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=buffer))
    assert command(*words.split()).status == 0
