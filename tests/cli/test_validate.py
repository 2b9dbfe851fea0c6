"""`ktae validate` as a user runs it: arguments in; exit status, output and files out."""

import functools
import itertools
import json

import pytest
from saved_outputs import write_lines

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


def lines_of(text, start):
    return next(line.split() for line in text.splitlines() if line.strip().startswith(start))


def found(dump):
    return json.loads((dump.parent / "found.json").read_text(encoding="utf-8"))


def test_table_json_and_plot(run, dump):
    result = run("r.jsonl", "-o", "found.json", "--plot", "forest.svg")
    assert result.status == 0
    verdict, looked_at, *_ = result.out.splitlines()
    assert verdict.startswith("VERDICT: Credit tells no more than")
    assert looked_at.startswith("10 groups, 60 distinct rollouts, 90 held-out pairs")
    assert lines_of(result.out, "paper ")[1] == "1.000"
    saved = found(dump)
    assert [score["name"] for score in saved["estimators"]] == list(PRESETS)
    paper = saved["estimators"][0]
    assert paper["auc"] == 1.0 and paper["interval"] == [0.025**0.1, 1.0]
    assert 0 <= paper["permuted_interval"][0] <= paper["permuted"] <= paper["permuted_interval"][1]
    assert {score["name"] for score in saved["baselines"]} == {"shorter", "majority"}
    best = max(score["auc"] for score in saved["baselines"])
    assert best == 1.0 and saved["advice"]["take"] is None, "a vote does as well"
    assert "<svg" in (dump.parent / "forest.svg").read_text(encoding="utf-8")


def test_estimators_that_are_named(run, dump):
    sections = ["trigrams", "{estimator: ktae, h3: 0}"]
    arguments = [x for section in sections for x in ("--estimator", section)]
    assert run("r.jsonl", *arguments, "-o", "found.json").status == 0
    assert [score["name"] for score in found(dump)["estimators"]] == sections


def test_settings_are_of_every_estimator_that_is_named(run, dump):
    arguments = ("-e", "paper", "-e", "{estimator: ktae, transforms: centred}")
    more = ("--set", "h3=0", "--set", "transforms={scaled: 2}")
    result = run("r.jsonl", *arguments, *more, "--json")
    assert result.status == 0
    names = [score["name"] for score in json.loads(result.out)["estimators"]]
    assert names == [", ".join([one, "h3=0", "transforms={scaled: 2}"]) for one in arguments[1::2]]
    alone = json.loads(run("r.jsonl", "--set", "scale=1", "--json").out)
    assert len(alone["estimators"]) == 1  # the default
    assert run("r.jsonl", "-e", "calibrated", "--set", "h3=0").status == 2  # it has no h3


def test_parts_of_rollouts(run, dump):
    """The word that tells comes first; before the answer it is there, in nothing it is not."""

    def auc(*arguments):
        assert run("r.jsonl", "-e", "paper", "-o", "found.json", *arguments).status == 0
        return found(dump)["estimators"][0]["auc"]

    assert auc("--until", 0.1) == auc("--before-answer") == 1.0


def test_units_of_words_are_of_the_run_s_own_tokenizer(run, dump, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    (tmp_path / "run/rollouts").mkdir(parents=True)
    (tmp_path / "run/model").mkdir()
    dump.rename(tmp_path / "run/rollouts/1.jsonl")
    (tmp_path / "run/recipe.yaml").write_text("{name: x, steps: 1}")
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    own = tokenizers.Tokenizer(tokenizers.models.BPE({x: i for i, x in enumerate(alphabet)}, []))
    own.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = tokenizers.decoders.ByteLevel()
    own.save(str(tmp_path / "run/model/tokenizer.json"))
    by_words = ("-e", "{estimator: ktae, transforms: [{over-units: [word]}]}", "--json")
    result = run("run", *by_words)
    assert result.status == 0
    assert json.loads(result.out)["estimators"][0]["auc"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--until", 0.5, "--before-answer"], "exclude each other"),
        (["--until", 0], "above 0, at most 1"),
        (["--until", 2], "less than or equal to 1"),
    ],
)
def test_what_cannot_be_meant(run, dump, arguments, message):
    result = run("r.jsonl", *arguments)
    assert result.status == 2
    assert message in result.err
