"""No file of a folder holds a command, or takes memory out of proportion to its bytes."""

import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = b'{"group":"a","response":"x","reward":1}\n{"group":"a","response":"y","reward":0}\n'
MANY = 100_000


def member(content):
    """A block of gzip; any number of them is a file."""
    return gzip.compress(content * ((16 << 20) // len(content)), 9)


def table(n, response):
    return pa.table({"group": pa.repeat("a", n), "reward": pa.repeat(1.0, n), "response": response})


def parquet(content, **settings):
    file = io.BytesIO()
    pq.write_table(content, file, **settings)
    return file.getvalue()


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def referring(n):
    """Rows that all refer to one long text."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n), ["y" * 200_000])


ALIASES = "a0: &a0 [1, 1]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
)
CASES = {
    "recipe.yaml": {
        "aliases": ALIASES.encode(),
        "deep": b"a: " + b"[" * 100_000,
        "deep blocks": b"- " * 30_000,
        "long": b"a: [" + b"1," * 20_000 + b"]",
        "not text": bytes(range(256)) * 400,
    },
    "metrics.jsonl": {"deep": b'{"a":' * 200_000, "keys": b"{" + b'"a":1,' * MANY + b'"b":1}\n'},
    "tokenizer.json": {"deep": b'{"model":' * 200_000, "empty": b"{}"},
    "r.json": {
        "deep": b"[" * 2_000_000,
        "keys": b"{" + b'"a":1,' * MANY + b'"b":1}',
        "wide": b"[[" + b"[]," * MANY + b"[]]]",
    },
    "r.jsonl": {"deep": b'{"a":' * MANY, "digits": b'{"reward": ' + b"9" * 1_000_000 + b"}\n"},
    "r.jsonl.gz": {"a line": member(b"a") * 100, "lines": member(b"{}\n") * 100},
    "r.parquet": {
        "rows": parquet(table(1_000_000, pa.repeat("x", 1_000_000))),
        "a dictionary": parquet(table(20_000, referring(20_000))),
        "zeros": parquet(table(1, ["z" * (400 << 20)]), compression="zstd", use_dictionary=False),
    },
    "r.eval": {"zeros": zipped("samples/1.json", b'{"id": "' + b"a" * (400 << 20) + b'"}')},
}
NAMES = [(name, case) for name in CASES for case in CASES[name]]


OF_RUNS = ("recipe.yaml", "metrics.jsonl", "tokenizer.json")
"""Files that lie beside the rollouts of a run."""


@pytest.fixture(scope="module")
def statuses(tmp_path_factory):
    """Exit statuses of `report`, by file and case."""
    folders = {}
    for name, case in NAMES:
        folder = tmp_path_factory.mktemp("run")
        (folder / name).write_bytes(CASES[name][case])
        if name in OF_RUNS:
            (folder / "rollouts").mkdir()
            (folder / "rollouts/1.jsonl").write_bytes(ROWS)
        folders[name, case] = str(folder)
    words = [sys.executable, Path(__file__).parent / "limited.py", "report"]
    done = subprocess.run([*words, *folders.values()], capture_output=True, text=True)
    results = json.loads(done.stdout)
    return {key: results[folder] for key, folder in folders.items()}


@pytest.mark.parametrize(("name", "case"), NAMES)
def test_it_is_read_or_refused(name, case, statuses):
    assert statuses[name, case] in (0, 2)
