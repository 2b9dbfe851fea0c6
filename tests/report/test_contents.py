"""What a page holds: its notes, its groups and rollouts, samples, and the estimator's name."""

import json

import numpy as np
import pytest
from dumps import AGENTS, ROLLOUTS, finding, page_data, unpack
from saved_outputs import write_lines

from ktae.estimators import KTAE, preset
from ktae.report import inputs, sampling
from ktae.report.contents import contents
from ktae.report.frame import frame_of
from ktae.report.scoring import credit_of
from ktae.validity.advice import RECOMMENDED


def without(rows, *names):
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([row | {"group": i} for i, row in enumerate(ROLLOUTS)], "one-response"),
        ([*ROLLOUTS[:2], *[r | {"group": 2} for r in ROLLOUTS[2:]]], "not-mixed"),
        ([*ROLLOUTS, {"group": "sum", "response": "x"}], "without-reward"),
        ([*ROLLOUTS, {"group": "sum", "reward": 1}], "rejected"),
        (without(ROLLOUTS, "reward", "answer"), "no-rewards"),
    ],
)
def test_the_page_says_what_it_cannot(page, rows, key):
    assert key in [note.key for note in page(rows).notes if note.severe]


def test_a_page_without_rewards_or_tokenizer_has_all_views(page_of):
    page = page_of(without(ROLLOUTS, "reward", "answer"), "view=overview")
    for view in ("rollouts", "tokens", "overview"):
        page.click(f"#to-{view}")
        assert len(page.locator("main").inner_text()) > 40
    assert page.locator("#to-training, #to-compare").count() == 0


def test_one_name_stands_for_the_colours_the_numbers_and_the_advice(page):
    """Where nothing is shown, the estimator that ktae recommends; else what was asked for."""
    assert page(ROLLOUTS).credit.name == RECOMMENDED
    asked = page(ROLLOUTS, preset("calibrated"))
    assert asked.credit.name == "calibrated"
    assert page(ROLLOUTS, KTAE(h3=0)).credit.name == "no-tf"


def by_length(token_ids, mask, correct, groups):
    return np.cumsum(mask, axis=1) * (2.0 * correct[:, None] - 1)


@pytest.mark.parametrize(
    "estimator",
    [
        *["sharp-trigrams", "tempo"],
        {"estimator": "presence-z", "transforms": [{"over-units": "word"}, {"scaled": 2}]},
        {"estimator": "ktae", "transforms": [{"ignoring": [1, 2]}, {"over-units": ["bigram"]}]},
        pytest.param(by_length, id="by_length"),
    ],
    ids=str,
)
def test_the_credit_shown_is_that_of_the_estimator_named(estimator, tmp_path):
    """Of each token, whatever the estimator rests on, as `ktae score` and a trainer have it."""
    rows = [
        {"group": group, "response": " ".join(f"w{x}" for x in words), "reward": int(i % 3 > 0)}
        for group in range(2)
        for i, words in enumerate(np.random.default_rng(group).integers(0, 6, (6, 12)).tolist())
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    shown = contents(dump, estimator)
    numbers = np.frombuffer(unpack(shown.blocks["credit"]), np.int8)
    expected = credit_of(frame_of(dump), estimator)
    largest = shown.page.credit.largest
    assert largest == pytest.approx(np.abs(expected).max())
    # In steps of 1/127 of the largest.
    np.testing.assert_allclose(numbers / 127 * largest, expected, atol=largest / 250)


def test_what_the_trainer_calls_entropy_is_entropy(tmp_path):
    """The report's names are those of `ktae curves`."""
    run = tmp_path / "run"
    steps = [row | {"step": step} for step in (1, 2) for row in ROLLOUTS]
    write_lines(run / "rollouts/1.jsonl", steps)
    (run / "recipe.yaml").write_text("{name: x, task: demo, steps: 1, model: {path: nowhere}}")
    metrics = [{"step": s, "actor/entropy_loss": 0.5 / s} for s in (1, 2)]
    write_lines(run / "metrics.jsonl", metrics)
    (entropy,) = [x for x in page_data(inputs.load([run])).charts if x.name == "entropy"]
    assert entropy.lines[0].values == [0.5, 0.25]


def test_signals_that_are_no_numbers_are_counted(page):
    entropies = ([0.5, None], ["high", "low"], "high", [[1], [2]], [1], [0, 10**400])
    row = {"group": 0, "token_ids": [1, 2], "reward": 1}
    shown = page([row | {"entropy": entropy} for entropy in entropies])
    assert shown.signals == ["entropy"]
    assert [note.count for note in shown.notes if note.key == "no-entropy"] == [5]


def test_advantages_are_the_dump_s_or_grpo_s(page):
    rows = [row | {"advantage": i / 4} for i, row in enumerate(ROLLOUTS[:3])]
    shown = page([*rows, ROLLOUTS[3]])
    np.testing.assert_equal(shown.rollouts.advantage, [0, 0.25, 0.5, np.nan])
    assert [note.count for note in shown.notes if note.key == "without-advantage"] == [1]
    grpo = page(ROLLOUTS).rollouts.advantage
    # (1 - .5) / (sd of 1, 1, 0, 0 + 1e-6), sd = sqrt(1/3)
    np.testing.assert_allclose(grpo, [0.866024, 0.866024, -0.866024, -0.866024], rtol=1e-5)


def test_no_reward_is_no_reward_of_zero(page):
    """GRPO's group mean is over the rollouts that have a reward, as in TRL."""
    rows = [*ROLLOUTS[:2], *without(ROLLOUTS[2:], "reward")]
    shown = page([row | {"step": 1} for row in rows] + [rows[2] | {"step": 2}])
    np.testing.assert_equal(shown.rollouts.reward, [1, 1, *[np.nan] * 3])
    np.testing.assert_equal(shown.rollouts.advantage, [0, 0, *[np.nan] * 3])
    lines = {chart.name: chart.lines[0] for chart in shown.charts}
    assert (lines["reward"].steps, lines["reward"].values) == ([1], [1])


def test_sample_says_so(page):
    rows = [row | {"group": group} for group in range(20) for row in ROLLOUTS]
    full, part = page(rows), page(rows, max_tokens=200)
    assert sum(full.groups.shown) == 20
    assert 1 < sum(part.groups.shown) < 20
    assert "sample" in [note.key for note in part.notes]
    assert part.tiles == full.tiles
    assert part.groups.n_correct == full.groups.n_correct
    assert len(part.rollouts.length) == 4 * sum(part.groups.shown)


def test_sampling_rule():
    tokens_g, mixed_g = np.full(100, 10), np.arange(100) % 2 == 0
    shown_g = sampling.choose(tokens_g, mixed_g, [99, 97, 95], 80)
    assert shown_g[[99, 97]].all() and not shown_g[95]  # a quarter of 80 tokens
    assert tokens_g[shown_g].sum() == 80
    assert mixed_g[shown_g].sum() == 6
    gaps = np.diff(np.flatnonzero(shown_g & mixed_g))
    assert gaps.max() <= 2 * 100 / 6  # spread over the dump
    assert sampling.choose(tokens_g, mixed_g, [], 1000).all()
    assert sampling.choose(tokens_g, mixed_g, [], 1).sum() == 1


def test_what_of_a_finding_the_page_holds(page):
    rows = [
        {"group": g, "response": f"{i % 3} {g}", "reward": int(i == 0)}
        for g in range(4)
        for i in range(6)
    ]
    copies = finding(page(rows, max_groups=2), "copies")
    assert copies.count > len(copies.rollouts) > 0


def test_a_turn_has_its_own_credit(page, tmp_path):
    """The mean over its tokens: turns of equal credit a token are equal, however long."""

    def half(token_ids, mask, correct, groups):
        return np.where(mask, 0.5 * (2 * correct[:, None] - 1), 0.0)

    rows = [
        {"group": 0, "token_ids": [1, *[2] * n, 9, 3, 4], "mask": [1] * (n + 1) + [0, 1, 1],
         "reward": n % 2}
        for n in (1, 2, 9)
    ]  # fmt: skip
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    turns = json.loads(unpack(contents(dump, half).blocks["turns"]))["0"]
    credit = [[turn["credit"] for turn in row] for row in turns["rollouts"]]
    assert credit == [[0.5, 0.5], [-0.5, -0.5], [0.5, 0.5]]


def test_turns_and_what_was_done_in_the_states_that_rollouts_share(tmp_path):
    """One rollout pulls at the door, walks away and comes back to it; one never gets there."""
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", AGENTS)])
    turns = json.loads(unpack(contents(dump).blocks["turns"]))["0"]
    texts = [[turn["text"] for turn in row] for row in turns["rollouts"]]
    first = "⟨1⟩ ⟨2⟩"
    assert texts == [[first, "⟨3⟩"], [first, "⟨4⟩", "⟨3⟩"], [first, "⟨4⟩"], ["⟨5⟩"]]
    assert [(x["text"], x["n"]) for x in turns["states"]] == [("", 4), ("⟨8⟩ ⟨9⟩", 3)]
    choices = [list(choice.values()) for choice in turns["states"][1]["choices"]]
    assert choices == [["⟨3⟩", 2, 2, 2], ["⟨4⟩", 2, 1, 2]]


def test_groups_of_files_are_told_apart_by_columns(tmp_path):
    """A label that looks like a file's name is a label."""
    rows = [row | {"group": "a.jsonl:7"} for row in ROLLOUTS]
    single = page_data(inputs.load([write_lines(tmp_path / "a/x.jsonl", rows)])).groups
    assert (single.label, single.files, single.file) == (["a.jsonl:7"], [], [-1])
    write_lines(tmp_path / "a/sub/y.jsonl", rows)
    folder = page_data(inputs.load([tmp_path / "a"])).groups
    assert (folder.label, folder.files) == (["a.jsonl:7"] * 2, ["sub/y.jsonl", "x.jsonl"])
    assert sorted(folder.file) == [0, 1]
