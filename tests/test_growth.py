"""How the time of what reads untrusted text grows with the text: four times as much text may take
four times as long, and not sixteen times.

These functions run in the caller's process without a limit, on whatever a model wrote. The texts
are fragments of the grammars that they read, repeated. Processor time is measured, the least of
several runs, on texts that take milliseconds.
"""

import contextlib
import functools
import json
import re
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktae import InputError
from ktae.grading.extraction import extract
from ktae.rollouts import files, readers, record
from ktae.rollouts.folders import choose_files
from ktae.rollouts.tolerance import Tolerance

sys.path.append(str(Path(__file__).parent / "fuzz"))
from fuzzing import FRAGMENTS

MEASURABLE_S = 0.004
"""What takes less is repeated more often before it is measured."""
LARGEST = 1 << 18
"""Characters: what takes less than that with so many is no danger, however it grows."""
BOUND = 9
"""Times as long for four times the text: 4 if it is linear, 16 if it is quadratic."""


def seconds(function, argument, repeats=3):
    """The least processor time of some runs; an InputError is an answer as well."""
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        with contextlib.suppress(InputError):
            function(argument)
        taken.append(time.process_time() - started)
    return min(taken)


def growth(function, make, scale=1):
    """How many times as long `function(make(4 * n))` takes as `function(make(n))`.

    n is doubled until the smaller one can be measured; 0 where that never happens. With `scale`
    the texts take so many times as long.
    """
    n = 250
    while seconds(function, make(n), repeats=1) < scale * MEASURABLE_S:
        n *= 2
        if n > scale * LARGEST / 8:
            return 0
    return seconds(function, make(4 * n)) / seconds(function, make(n))


def is_linear(function, make, scales=(1, 2, 4, 16)):
    """A busy machine or a cache that is full may spoil a measurement, but not one at each size."""
    return any(growth(function, make, scale) < BOUND for scale in scales)


@pytest.mark.slow
def test_the_measure_tells_quadratic_from_linear():
    quadratic = re.compile(r"\\\(((?:[^\\]|\\[^()])*)\\\)")  # starts again at every "\("
    assert not is_linear(quadratic.findall, lambda n: r"\\(" * n, scales=(1, 2))
    assert is_linear(re.compile(r"\\\(").findall, lambda n: r"\\(" * n)


# --- the answer in a response

BEFORE = ["", r"\boxed{", "Answer: ", "the answer is ", "<answer>", "<answer>two words ", "#### "]
AFTER = ["", "}", "$", "</answer>", "x", ".", "**"]
TOKENS = sorted(
    {
        *FRAGMENTS,
        r"\\(",
        r"\\[",
        r"\\",
        "\\boxed ",
        r"\fbox{",
        "**",
        "word ",
        "is 5 ",
        "答案是",
        "1:",
    }
)


def check_extraction(fragment, before, after):
    for fallback in ("stated", "last"):
        find = functools.partial(extract, fallback=fallback)
        assert is_linear(find, lambda n: before + fragment * n + after), (before, fragment, after)


@pytest.mark.parametrize(
    ("fragment", "before", "after"),
    [
        (r"\\(", "<answer>two words ", "</answer>"),
        (r"\\[", "<answer>two words ", "</answer>"),
        (r"\\(", "#### two words ", ""),
        (r"\(", '"answer": "two words ', '"'),
        ("\\boxed{", "", ""),
        ("\n", "x \\boxed{4", ""),
        (r"\boxed{5", "", "}" * 100_000),
        ("$x", "#### two words ", ""),
        ("<answer>", "", ""),
        ("\nAnswer:", "", ""),
        ("Answer:\n\n", "", ""),
        ('"answer": "\\', "", ""),
        ("1,234", "", ""),
        ("is 5 ", "#### two words ", ""),
    ],
)
def test_extraction_of_what_was_found_to_be_slow(fragment, before, after):
    check_extraction(fragment, before, after)


@pytest.mark.slow
@settings(max_examples=20, derandomize=True, deadline=None)
@given(
    parts=st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3),
    before=st.sampled_from(BEFORE),
    after=st.sampled_from(AFTER),
)
def test_extraction_is_linear(parts, before, after):
    check_extraction("".join(parts), before, after)


# --- the readers of rollouts: each shape is a file with n fragments in it

WHOLE = {"group": "1", "response": "r", "reward": 1}
ROW = json.dumps(WHOLE).encode() + b"\n"


def as_response(fragment, n):
    return json.dumps(WHOLE | {"response": fragment * n}).encode()


def as_group(fragment, n):
    return json.dumps(WHOLE | {"group": fragment * n}).encode()


def as_uid(fragment, n):
    """A row of verl's, whose group is taken out of its key."""
    row = {"step": 1, "input": "p", "output": "r", "score": 1, "uid": fragment * n}
    return json.dumps(row).encode()


def as_line(fragment, n):
    return fragment.encode(errors="surrogatepass") * n


def as_rows(fragment, n):
    return b"".join(
        json.dumps(WHOLE | {"group": f"{fragment}{i}"}).encode() + b"\n" for i in range(n)
    )


def as_fields(fragment, n):
    """More rewards than one, in a row of TRL's."""
    row = {"step": 1, "prompt": "p", "completion": "r", "advantage": 0}
    return json.dumps(row | {f"{fragment}{i}": i for i in range(n)}).encode()


def as_token_ids(fragment, n):
    return json.dumps(WHOLE | {"token_ids": [1] * n, "mask": [1] * n}).encode()


def as_messages(fragment, n):
    row = {"step": 1, "prompt": [{"content": fragment}] * n, "completion": "r", "advantage": 0}
    return json.dumps(row | {"accuracy": 1}).encode()


def as_broken(fragment, n):
    return ROW * n + b"{"


def read_whole(path):
    """The same content as a `.json` file."""
    whole = path.with_suffix(".json")
    whole.write_bytes(path.read_bytes())
    return readers.read([whole])


SHAPES = [as_response, as_group, as_uid, as_line, as_rows, as_fields, as_token_ids, as_messages]
JSONL_READERS = {
    "strict": lambda path: readers.read([path]),
    "tolerant": lambda path: readers.read([path], tolerance=Tolerance()),
    "rows": lambda path: list(files.iterate_rows(path)),
    "whole": read_whole,
}
READ_TOKENS = ["_1", "{", "[", '"', "\\", "\n", "\ud800", '{"a":', "a_0_0"]


def check_reader(read, shape, fragment, path):
    def make(n):
        path.write_bytes(shape(fragment, n))
        return path

    assert is_linear(read, make), (shape.__name__, fragment)


@pytest.mark.slow
@pytest.mark.parametrize("name", JSONL_READERS)
@pytest.mark.parametrize("shape", [*SHAPES, as_broken], ids=lambda shape: shape.__name__)
def test_json_is_read_in_linear_time(name, shape, tmp_path):
    for fragment in ["x"] if shape in (as_rows, as_token_ids, as_broken) else READ_TOKENS:
        check_reader(JSONL_READERS[name], shape, fragment, tmp_path / "r.jsonl")


def as_parquet_rows(path, fragment, n):
    row = {"group": "1", "response": fragment, "reward": 1.0}
    pq.write_table(pa.Table.from_pylist([row] * n), path)


def as_parquet_columns(path, fragment, n):
    """No more than a few thousand columns: pyarrow itself takes milliseconds for each hundred."""
    columns = {f"{fragment}{i}": [1] for i in range(n // 16)}
    pq.write_table(pa.table({"group": ["1"], "response": ["r"], "reward": [1.0]} | columns), path)


def as_parquet_text(path, fragment, n):
    pq.write_table(pa.Table.from_pylist([WHOLE | {"response": fragment * n}]), path)


def as_record(path, fragment, n):
    row = {"group": "1", "response": fragment, "reward": 1.0, "correct": 1.0}
    record.write(record.conform(pa.Table.from_pylist([row] * n)), path)


PARQUET = [
    *((readers.read, as_parquet_rows), (readers.read, as_parquet_columns)),
    *((readers.read, as_parquet_text), (readers.read, as_record)),
    (lambda paths: record.read_record(paths[0]), as_record),
]


@pytest.mark.slow
@pytest.mark.parametrize(("read", "write"), PARQUET, ids=range(len(PARQUET)))
@pytest.mark.parametrize("fragment", ["a", "漢_1_1"])
def test_parquet_is_read_in_linear_time(read, write, fragment, tmp_path):
    path = tmp_path / "r.parquet"

    def make(n):
        write(path, fragment, n)
        return [path]

    assert is_linear(read, make), fragment


@pytest.mark.slow
@pytest.mark.parametrize("read", [choose_files, lambda path: readers.read([path])])
@pytest.mark.parametrize("name", ["{}.jsonl", "{}/r.jsonl"])
def test_a_folder_of_many_files_is_read_in_linear_time(read, name, tmp_path):
    row = json.dumps({"group": "g", "response": "r", "reward": 1})

    def make(n):
        folder = tmp_path / str(n)
        for i in range(0 if folder.exists() else n):
            path = folder / name.format(i)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(row)
        return folder

    assert is_linear(read, make, scales=(4, 16))
