"""What reads untrusted text takes time in proportion to it.

These functions run in the caller's process without a limit. Here each gets so long a text that a
second is enough if the time is linear, and minutes are not if it is quadratic.
"""

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
    with no_hang():
        answer = extract(before + fragment * LONG + after, fallback)
        assert answer is None or len(answer.text) <= len(fragment * LONG)


ROW = {"group": "1", "response": "r", "reward": 1}
TRL = {"step": 1, "prompt": "p", "completion": "r", "advantage": 0}


def lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def json_texts(fragment):
    """Files with so many fragments in them, by what they are there."""
    verl = {"step": 1, "input": "p", "output": "r", "score": 1}  # the group is taken out of its uid
    many = [{"content": fragment}] * MANY
    return {
        "response": lines([ROW | {"response": fragment * LONG}]),
        "group": lines([ROW | {"group": fragment * LONG}]),
        "uid": lines([verl | {"uid": fragment * LONG}]),
        "line": fragment.encode(errors="surrogatepass") * LONG,
        "rows": lines(ROW | {"group": f"{fragment}{i}"} for i in range(MANY)),
        "rewards": lines([TRL | {f"{fragment}{i}": i for i in range(MANY)}]),
        "messages": lines([TRL | {"prompt": many, "accuracy": 1}]),
        "token ids": lines([ROW | {"token_ids": [1] * LONG, "mask": [1] * LONG}]),
        "rows, and a broken one": lines([ROW] * MANY) + b"{",
    }


@pytest.mark.parametrize("name", ["r.jsonl", "r.json"])
@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("fragment", ["_1", "{", "[", '"', "\\", "\n", "\ud800", '{"a":', "a_0_0"])
def test_json(name, tolerant, fragment, tmp_path):
    for data in json_texts(fragment).values():
        (tmp_path / name).write_bytes(data)
        with only_input_errors() as messages:
            table = readers.read([tmp_path / name], notes=Notes() if tolerant else None)
            assert len(table) > 0
        assert all(str(tmp_path) in message for message in messages)
