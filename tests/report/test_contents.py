"""What a page holds: its notes, its groups and rollouts, samples, and the estimator's name."""

import numpy as np
import pytest
from dumps import ROLLOUTS, page_data, unpack, without
from saved_outputs import write_lines

from ktae.estimators import KTAE, preset
from ktae.report import inputs, sampling
from ktae.report.contents import contents
from ktae.report.frame import frame_of
from ktae.report.scoring import credit_of
from ktae.validity.advice import RECOMMENDED


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([row | {"group": i} for i, row in enumerate(ROLLOUTS)], "alone_in_group"),
        ([*ROLLOUTS, {"group": "sum", "response": "x"}], "without_some_rewards"),
        ([*ROLLOUTS, {"group": "sum", "reward": 1}], "rejected"),
        (without(ROLLOUTS, "reward", "answer"), "without_rewards"),
    ],
)
def test_the_page_says_what_it_cannot(page, rows, key):
    assert key in [note["key"] for note in page(rows).notes if note["severe"]]


def test_a_page_without_rewards_or_tokenizer_has_all_views(page_of):
    page = page_of(without(ROLLOUTS, "reward", "answer"), "view=overview")
    for view in ("rollouts", "tokens", "overview"):
        page.click(f"#to-{view}")
        assert len(page.locator("main").inner_text()) > 40
    assert page.locator("#to-training, #to-compare").count() == 0


def test_one_name_stands_for_the_colours_the_numbers_and_the_advice(page):
    """Where nothing is shown, the estimator that ktae recommends; else what was asked for."""
    assert page(ROLLOUTS).estimator == RECOMMENDED
    assert page(ROLLOUTS, preset("calibrated")).estimator == "calibrated"
    assert page(ROLLOUTS, KTAE(h3=0)).estimator == "no-tf"


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
    largest = shown.page.largest
    assert largest == pytest.approx(np.abs(expected).max())
    # In steps of 1/127 of the largest.
    np.testing.assert_allclose(numbers / 127 * largest, expected, atol=largest / 250)


def test_advantages_are_the_dump_s_or_grpo_s(page):
    rows = [row | {"advantage": i / 4} for i, row in enumerate(ROLLOUTS[:3])]
    shown = page([*rows, ROLLOUTS[3]])
    np.testing.assert_equal(shown.rollouts.advantage, [0, 0.25, 0.5, np.nan])
    grpo = page(ROLLOUTS).rollouts.advantage
    # (1 - .5) / (sd of 1, 1, 0, 0 + 1e-6), sd = sqrt(1/3)
    np.testing.assert_allclose(grpo, [0.866024, 0.866024, -0.866024, -0.866024], rtol=1e-5)


def test_no_reward_is_no_reward_of_zero(page):
    """GRPO's group mean is over the rollouts that have a reward, as in TRL."""
    rows = [*ROLLOUTS[:2], *without(ROLLOUTS[2:], "reward")]
    shown = page([row | {"step": 1} for row in rows] + [rows[2] | {"step": 2}])
    np.testing.assert_equal(shown.rollouts.reward, [1, 1, *[np.nan] * 3])
    np.testing.assert_equal(shown.rollouts.advantage, [0, 0, *[np.nan] * 3])
    assert shown.charts["reward"] == [("", [1], [1])]


def test_sample_says_so(page):
    rows = [row | {"group": group} for group in range(20) for row in ROLLOUTS]
    full, part = page(rows), page(rows, max_tokens=200)
    assert sum(full.groups.shown) == 20
    assert 1 < sum(part.groups.shown) < 20
    assert "sample" in [note["key"] for note in part.notes]
    assert part.tiles == full.tiles
    assert part.groups.n_correct == full.groups.n_correct
    assert len(part.rollouts.length) == 4 * sum(part.groups.shown)


def test_sampling_rule():
    tokens_g, mixed_g = np.full(100, 10), np.arange(100) % 2 == 0
    shown_g = sampling.choose(tokens_g, mixed_g, [99, 97, 95], 80)
    assert shown_g[[99, 97, 95]].all()
    assert tokens_g[shown_g].sum() == 80
    assert mixed_g[shown_g].sum() == 5
    gaps = np.diff(np.flatnonzero(shown_g & mixed_g))
    assert gaps.max() <= 2 * 100 / 5  # spread over the dump
    assert sampling.choose(tokens_g, mixed_g, [], 1000).all()
    assert sampling.choose(tokens_g, mixed_g, [], 1).sum() == 1


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
    segments = contents(dump, half).page.rollouts.segments
    credit = [[credit for *_, credit in row] for row in segments.values()]
    assert credit == [[0.5, None, 0.5], [-0.5, None, -0.5], [0.5, None, 0.5]]


def test_groups_of_files_are_told_apart_by_columns(tmp_path):
    """A label that looks like a file's name is a label."""
    rows = [row | {"group": "a.jsonl:7"} for row in ROLLOUTS]
    single = page_data(inputs.load([write_lines(tmp_path / "a/x.jsonl", rows)])).groups
    assert (single.label, single.files, single.file) == (["a.jsonl:7"], [], [-1])
    write_lines(tmp_path / "a/sub/y.jsonl", rows)
    folder = page_data(inputs.load([tmp_path / "a"])).groups
    assert (folder.label, folder.files) == (["a.jsonl:7"] * 2, ["y.jsonl", "x.jsonl"])
    assert sorted(folder.file) == [0, 1]
