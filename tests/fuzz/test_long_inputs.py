"""What reads untrusted text takes time in proportion to it: each gets so long a text that a second
is enough if the time is linear, and minutes are not if it is quadratic."""

import json

import pytest
from fuzzing import no_hang, only_input_errors

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
        ("#### two words ", r"\\(", ""),
        ("", "\\boxed{", ""),
        ("", r"\boxed{5", "}" * 100_000),
        ("#### two words ", "$x", ""),
        ("", "Answer:\n\n", ""),
        ("", '"answer": "\\', ""),
        ("", "1,234", ""),
    ],
)
def test_extraction_of_what_was_found_to_be_slow(before, fragment, after, fallback):
    with no_hang():
        answer = extract(before + fragment * LONG + after, fallback)
        assert answer is None or len(answer.text) <= len(fragment * LONG)


ROW = {"group": "1", "response": "r", "reward": 1}


def lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize("name", ["r.jsonl", "r.json"])
@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("fragment", ["_1", "{", "[", '"', "\\", "\n", '{"a":'])
def test_json(name, tolerant, fragment, tmp_path):
    """A long text in a field or for a line, many rows, and a row of many messages or tokens."""
    verl = {"step": 1, "input": "p", "output": "r", "score": 1}  # the group is taken out of its uid
    trl = {"step": 1, "prompt": [{"content": fragment}] * MANY, "completion": "r", "accuracy": 1}
    for data in (
        lines([ROW | {"response": fragment * LONG}]),
        lines([verl | {"uid": fragment * LONG}]),
        fragment.encode(errors="surrogatepass") * LONG,
        lines(ROW | {"group": f"{fragment}{i}"} for i in range(MANY)),
        lines([trl | {"advantage": 0} | {f"{fragment}{i}": i for i in range(MANY)}]),
        lines([ROW | {"token_ids": [1] * LONG, "mask": [1] * LONG}]),
        lines([ROW] * MANY) + b"{",
    ):
        (tmp_path / name).write_bytes(data)
        with only_input_errors() as messages:
            table = readers.read([tmp_path / name], notes=Notes() if tolerant else None)
            assert len(table) > 0
        assert all(str(tmp_path) in message for message in messages)
