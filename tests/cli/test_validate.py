"""`ktae validate` as a user runs it: arguments in; exit status, output and files out."""

import functools
import itertools
import json

import pytest
from saved_outputs import cells, write_lines

from ktae.estimators import PRESETS


@pytest.fixture
def run(command):
    return functools.partial(command, "validate")


@pytest.fixture
def dump(tmp_path):
    """Ten groups of six; a word tells correct from incorrect, and the answer comes last."""
    rows = []
    for group, i in itertools.product(range(10), range(6)):
        word = "therefore" if i % 2 else "perhaps"
        text = f"{word} w{group * 6 + i} \\boxed{{{i % 2 or 5 + i}}}"
        rows.append({"group": str(group), "response": text, "reward": i % 2})
    return write_lines(tmp_path / "r.jsonl", rows)


def test_table_and_json(run, dump):
    result = run("r.jsonl")
    assert result.status == 0
    verdict, looked_at, *_ = result.out.splitlines()
    assert verdict.startswith("VERDICT: Credit tells no more than")
    assert looked_at.startswith("10 groups, 60 distinct rollouts, 90 held-out pairs")
    assert cells(result.out, "paper ")[0] == "1.000"
    saved = json.loads(run("r.jsonl", "--json").out)
    assert [score["name"] for score in saved["estimators"]] == list(PRESETS)
    paper = saved["estimators"][0]
    assert paper["auc"] == 1.0 and paper["interval"] == [0.025**0.1, 1.0]
    assert 0 <= paper["permuted_interval"][0] <= paper["permuted"] <= paper["permuted_interval"][1]
    assert {score["name"] for score in saved["baselines"]} == {"shorter", "majority"}
    best = max(score["auc"] for score in saved["baselines"])
    assert best == 1.0 and saved["advice"]["take"] is None, "a vote does as well"


def test_estimators_that_are_named(run, dump):
    sections = ["trigrams", "{estimator: ktae, h3: 0}"]
    arguments = [x for section in sections for x in ("--estimator", section)]
    found = json.loads(run("r.jsonl", *arguments, "--json").out)
    assert [score["name"] for score in found["estimators"]] == sections


def test_parts_of_rollouts(run, dump):
    """The word that tells comes first; before the answer it is there, in nothing it is not."""

    def auc(*arguments):
        found = json.loads(run("r.jsonl", "-e", "paper", "--json", *arguments).out)
        return found["estimators"][0]["auc"]

    assert auc() == auc("--before-answer") == 1.0
