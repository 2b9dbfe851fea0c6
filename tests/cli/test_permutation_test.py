"""`ktae permutation-test` as a user runs it: arguments in; exit status, output and files out."""

import functools
import json

import pytest
from saved_outputs import cells, write_lines
from small_group import GROUP


@pytest.fixture
def run(command):
    return functools.partial(command, "permutation-test")


@pytest.fixture
def dump(tmp_path):
    return write_lines(tmp_path / "r.jsonl", GROUP)


def test_real_beside_permuted(run, dump):
    result = run("r.jsonl", "--permutations", 30)
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("1 mixed group, 4 rollouts, 10 tokens, 4 pairs, 30 permutations\n")
    # Of ten tokens, six (1 and 2 in one class only, 3 once) have credit: the ten tokens' mean.
    assert cells(result.out, "pairs with p = 1, %")[0] == "50.0"
    assert "no pair could have p below .05; the smallest that there can be is 0.33." in result.out


def test_json(run, dump):
    found = json.loads(run("r.jsonl", "--json", "--permutations", 7, "--seed", 3).out)
    assert found["pairs"] == 4 and len(found["permuted"]) == 7
    assert 0 <= found["under_permutation"]["credit_abs"]["mean"] <= 0.5
    assert {one["frequency"] for one in found["bins"]} == {"1", "to 3/4", "all"}
