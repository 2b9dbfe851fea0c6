"""No command writes over what it reads, whether a file is given or the folder that holds it."""

import json

import pytest

ROWS = [{"group": "g", "response": text, "answer": "1", "reward": 1} for text in ("a", "b")]


@pytest.mark.parametrize("given", ["in", "in/r.json"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "GIVEN", "-o", "in/r.json"],
        ["show", "GIVEN", "-o", "in/r.json"],
        ["permutation-test", "GIVEN", "-o", "in/../in/r.json"],
        ["compare", "other.json", "GIVEN", "-o", "in/r.json"],
        ["compare", "GIVEN", "other.json", "--output", "link.json"],
    ],
)
def test_an_input_is_not_overwritten(arguments, given, command, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("in/r.json", "other.json"):
        (tmp_path / name).write_text(json.dumps(ROWS))
    (tmp_path / "link.json").symlink_to("in/r.json")
    result = command(*(given if x == "GIVEN" else x for x in arguments))
    assert (result.status, result.out) == (2, "")
    assert json.loads((tmp_path / "in/r.json").read_text()) == ROWS
