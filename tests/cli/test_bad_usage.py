"""Options that are wrong, are given twice, or would play no part: one line that names them."""

from pathlib import Path

import pytest
from saved_outputs import write_lines


@pytest.fixture
def rows(command):
    """Four rollouts in `r.jsonl`, below the folder where commands run."""
    rows = [
        {"group": "g", "response": f"so {i % 3}", "reward": i % 2, "answer": "1"} for i in range(4)
    ]
    return write_lines(Path("r.jsonl"), rows)


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
        ["--regrade", "r.jsonl", "--samples", 2],
        ["--regrade", "r.jsonl", "--set", "a=1"],
        ["no/such/model", "--partial"],
        ["no/such/model", "--field", "a=b"],
        ["m", "--recipe", "r.yaml", "--data", "d"],
        ["m", "--problems", 4],
    ],
)
def test_what_plays_no_part_is_refused(command, rows, words):
    option = next(word for word in words[::-1] if str(word).startswith("--"))
    result = command("eval", *words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"ktae: {option} ")


@pytest.mark.parametrize("option", ["--threshold", "--correctness"])
def test_rewards_play_no_part_where_outputs_are_compared(command, rows, option):
    result = command("compare", rows, rows, option, "1")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"ktae: {option} ")


def test_a_plot_is_a_picture(command, rows):
    for words in (["compare", rows, rows], ["validate", rows]):
        result = command(*words, "--plot", "forest.gif")
        assert result.status == 2
        assert "--plot forest.gif" in result.err
