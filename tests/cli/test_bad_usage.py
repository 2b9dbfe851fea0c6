"""Options that are wrong, are given twice, or would play no part: one line that names them."""

import json

import pytest

from ktae.cli import options


@pytest.fixture
def rows(command):
    """Four rollouts in `r.jsonl`, below the folder where commands run."""
    with open("r.jsonl", "w") as file:
        for i in range(4):
            row = {"group": "g", "response": f"so {i % 3}", "reward": i % 2, "answer": "1"}
            print(json.dumps(row), file=file)
    return "r.jsonl"


@pytest.mark.parametrize("more", [[], ["-s", "h2=0.5"]])
def test_an_estimator_may_be_a_section_everywhere(command, rows, more):
    outs = []
    for given in (["-e", "{estimator: ktae, h3: 0}", *more], ["-s", "h3=0", *more]):
        assert command("score", rows, *given, "--json").status == 0
        outs.append(command("show", rows, *given).out)
    assert outs[0] == outs[1]


@pytest.mark.parametrize(
    "words",
    [
        ["--regrade", "r.jsonl", "--samples", 1],
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
    assert result.err.startswith(f"ktae: {option} plays no part: ")


def test_a_plot_is_a_picture(command, rows):
    for words in (["compare", rows, rows], ["validate", rows]):
        result = command(*words, "--plot", "forest.gif")
        assert result.status == 2
        assert "--plot forest.gif: expected a name that ends in .png, .svg or .pdf" in result.err


def test_a_plot_without_matplotlib_is_refused_before_any_work(command, tmp_path, monkeypatch):
    monkeypatch.setattr(options, "find_spec", lambda _: None)
    (tmp_path / "r.jsonl").write_text("broken")
    for words in (["compare", "r.jsonl", "r.jsonl"], ["validate", "r.jsonl"]):
        result = command(*words, "--plot", "p.png", "-o", "o.json")
        assert result.status == 2
        assert "--plot p.png: a picture needs matplotlib, which is not installed" in result.err


def test_a_group_of_one_class_may_have_credit_by_its_scores(command, tmp_path):
    lines = [
        {"group": "g", "response": text, "reward": reward, "correct": True}
        for text, reward in (("a", 0.2), ("b", 0.9), ("a c", 0.4), ("b c", 1.0))
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = command("show", "r.jsonl", "-e", "{estimator: presence-z, graded_rewards: true}").out
    assert "Not both right and wrong rollouts.\n" in shown
    assert "all credit is 0" not in shown
    assert "all credit is 0" in command("show", "r.jsonl").out


def test_rewards_that_are_all_above_0_are_pointed_out(command, tmp_path):
    for low, high, side in ((1, 5, "every"), (-2, 0, "no")):
        lines = [
            {"group": "g", "response": f"a {reward}", "reward": reward} for reward in (low, high)
        ]
        (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert f"{side} reward is above 0 ({low} to {high})" in command("show", "r.jsonl").err
        assert "reward is above 0" not in command("show", "r.jsonl", "--threshold", "-1.5").err
