"""What reads untrusted text takes time in proportion to it.

These functions run in the caller's process without a limit. Here each gets so long a text that a
second is enough if the time is linear, and minutes are not if it is quadratic.
"""

import json

import pytest
from fuzzing import only_input_errors

from ktae.grading.extract import extract
from ktae.rollouts import readers
from ktae.rollouts.notes import Notes

LONG, MANY = 200_000, 20_000
"""Repetitions within a text, and rows of a file."""


@pytest.mark.parametrize("fallback", ["stated", "last"])
@pytest.mark.parametrize(
    ("before", "fragment", "after"),
    [
        ("<answer>two words ", r"\\(", "</answer>"),
        ("<answer>two words ", r"\\[", "</answer>"),
        ("#### two words ", r"\\(", ""),
        ('"answer": "two words ', r"\(", '"'),
        ("", "\\boxed{", ""),
        ("x \\boxed{4", "\n", ""),
        ("", r"\boxed{5", "}" * 100_000),
        ("#### two words ", "$x", ""),
        ("", "<answer>", ""),
        ("", "\nAnswer:", ""),
        ("", "Answer:\n\n", ""),
        ("", '"answer": "\\', ""),
        ("", "1,234", ""),
        ("#### two words ", "is 5 ", ""),
    ],
)
def test_extraction_of_what_was_found_to_be_slow(before, fragment, after, fallback):
    with only_input_errors():
        extract(before + fragment * LONG + after, fallback)


ROW = {"group": "1", "response": "r", "reward": 1}
TRL = {"step": 1, "prompt": "p", "completion": "r", "advantage": 0}


def lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def json_texts(fragment):
    """Files with so many fragments in them, by what they are there."""
    many = [{"content": fragment}] * MANY
    return {
        "response": lines([ROW | {"response": fragment * LONG}]),
        "group": lines([ROW | {"group": fragment * LONG}]),
        # verl's key, of which the group is taken out
        "uid": lines(
            [{"step": 1, "input": "p", "output": "r", "score": 1, "uid": fragment * LONG}]
        ),
        "line": fragment.encode(errors="surrogatepass") * LONG,
        "rows": lines(ROW | {"group": f"{fragment}{i}"} for i in range(MANY)),
        "rewards": lines([TRL | {f"{fragment}{i}": i for i in range(MANY)}]),
        "messages": lines([TRL | {"prompt": many, "accuracy": 1}]),
        "token ids": lines([ROW | {"token_ids": [1] * LONG, "mask": [1] * LONG}]),
        "rows, and a broken one": lines([ROW] * MANY) + b"{",
    }


READERS = {
    "strict": ("r.jsonl", lambda path: readers.read([path])),
    "tolerant": ("r.jsonl", lambda path: readers.read([path], notes=Notes())),
    "one document": ("r.json", lambda path: readers.read([path])),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("fragment", ["_1", "{", "[", '"', "\\", "\n", "\ud800", '{"a":', "a_0_0"])
def test_json(reader, fragment, tmp_path):
    name, read = READERS[reader]
    for data in json_texts(fragment).values():
        (tmp_path / name).write_bytes(data)
        with only_input_errors():
            read(tmp_path / name)
