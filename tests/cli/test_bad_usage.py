"""Options that are wrong, would have no effect, or would write over an input: one line."""

import json
from pathlib import Path

import pytest
from saved_outputs import write_lines

ROWS = [{"group": "g", "response": f"so {i % 3}", "reward": i % 2, "answer": "1"} for i in range(4)]


@pytest.fixture
def rows(command):
    """Four rollouts in `in/r.jsonl`, below the folder where commands run."""
    return write_lines(Path("in/r.jsonl"), ROWS)


@pytest.mark.parametrize("more", [[], ["-s", "h2=0.5"]])
def test_an_estimator_may_be_a_section_everywhere(command, rows, more):
    outs = []
    for given in (["-e", "{estimator: ktae, h3: 0}", *more], ["-e", "paper", "-s", "h3=0", *more]):
        assert command("score", rows, *given, "--json").status == 0
        outs.append(command("show", rows, *given).out)
    assert outs[0] == outs[1]


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "--regrade", "in/r.jsonl", "--samples", 2],
        ["eval", "--regrade", "in/r.jsonl", "--set", "a=1"],
        ["eval", "no/such/model", "--partial"],
        ["eval", "no/such/model", "--field", "a=b"],
        ["eval", "m", "--recipe", "r.yaml", "--data", "d"],
        ["eval", "m", "--problems", 4],
        ["compare", "in", "in", "--threshold", "1"],
        ["compare", "in", "in", "--correctness", "1"],
        ["compare", "in", "in", "--plot", "forest.gif"],
        ["validate", "in", "--plot", "forest.gif"],
    ],
)
def test_what_has_no_effect_is_refused(command, rows, words):
    option = next(word for word in words[::-1] if str(word).startswith("--"))
    result = command(*words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"ktae: {option} ")


@pytest.mark.parametrize("path", ["in", "in/r.jsonl"])
@pytest.mark.parametrize(
    "words",
    [
        ["validate", "PATH", "-o", "in/r.jsonl"],
        ["show", "PATH", "-o", "in/r.jsonl"],
        ["permutation-test", "PATH", "-o", "in/../in/r.jsonl"],
        ["compare", "other.jsonl", "PATH", "-o", "in/r.jsonl"],
        ["compare", "PATH", "other.jsonl", "--output", "link.jsonl"],
    ],
    ids=" ".join,
)
def test_an_input_is_not_overwritten(words, path, command, rows):
    """Whether it is named or the folder that holds it."""
    write_lines(Path("other.jsonl"), ROWS)
    Path("link.jsonl").symlink_to("in/r.jsonl")
    result = command(*(path if word == "PATH" else word for word in words))
    assert (result.status, result.out) == (2, "")
    assert [*map(json.loads, rows.read_text().splitlines())] == ROWS
