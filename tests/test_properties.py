"""What must hold of every batch, whatever it holds (hypothesis)."""

import math
import statistics
from typing import Any

import by_backend
import numpy as np
import pytest
from awkward_batches import Rollouts
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ktae import credit_table, token_advantages, token_credit
from ktae.estimators import KTAE, Estimator, Ignoring, Scaled, preset

ATOL = 1e-6  # of float32 credit, which are at most 1


def released_ignoring(token_ids: tuple[int, ...]) -> Estimator:
    return Scaled(Ignoring(KTAE(h2=1.0, normalize=True), token_ids), 2.0)


PRESETS = map(preset, ("paper", "no-fisher", "no-ig", "no-tf"))
estimators = st.sampled_from([*PRESETS, KTAE(fisher="point"), released_ignoring((3,))])


@st.composite
def batches(draw: st.DrawFn) -> Rollouts:
    """Few tokens, so that rollouts share them, in groups that are mixed up."""
    n_rows, n_columns = draw(st.integers(1, 10)), draw(st.integers(1, 6))
    shape = (n_rows, n_columns)
    verdicts = [0.0, 1.0, math.nan]
    return Rollouts(
        draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 6))),
        draw(hnp.arrays(np.bool_, shape, elements=st.sampled_from([True, True, True, False]))),
        draw(hnp.arrays(np.float64, n_rows, elements=st.sampled_from(verdicts))),
        draw(hnp.arrays(np.int64, n_rows, elements=st.integers(0, 1))),
    )


def permutations_of(n: int) -> st.SearchStrategy[np.ndarray]:
    return st.permutations(range(n)).map(np.array)


@given(batch=batches(), estimator=estimators, data=st.data())
def test_permuting_rollouts_and_positions_permutes_the_credit(
    batch: Rollouts, estimator: Estimator, data: st.DataObject
) -> None:
    """KTAE looks at which tokens a rollout holds and how often, never at where."""
    rows, columns = (data.draw(permutations_of(n)) for n in batch.mask.shape)
    credit = token_credit(*batch, estimator)
    moved = batch.take(rows)
    moved = moved._replace(token_ids=moved.token_ids[:, columns], mask=moved.mask[:, columns])
    permuted = token_credit(*moved, estimator)
    np.testing.assert_allclose(permuted, credit[rows][:, columns], rtol=0, atol=ATOL)


@given(batch=batches(), estimator=estimators, left=st.integers(0, 2), right=st.integers(0, 40))
def test_padding_changes_nothing(
    batch: Rollouts, estimator: Estimator, left: int, right: int
) -> None:
    """Columns and rows of padding, on either side, of a token that occurs elsewhere too; nor does
    what stands at masked positions."""
    width = ((left, 1), (left, right))
    padded = Rollouts(
        np.pad(np.where(batch.mask, batch.token_ids, -100), width, constant_values=1),
        np.pad(batch.mask, width),
        np.pad(batch.correct, width[0], constant_values=1),
        np.pad(batch.groups, width[0], constant_values=1),
    )
    got = token_credit(*padded, estimator)
    credit = token_credit(*batch, estimator)
    np.testing.assert_allclose(got, np.pad(credit, width), rtol=0, atol=ATOL)


@given(batch=batches(), estimator=estimators)
def test_groups_do_not_see_each_other(batch: Rollouts, estimator: Estimator) -> None:
    credit = token_credit(*batch, estimator)
    table = credit_table(*batch, estimator)
    for label in np.unique(batch.groups):
        rows = batch.groups == label
        alone = token_credit(*batch.take(rows), estimator)
        np.testing.assert_allclose(alone, credit[rows], rtol=0, atol=ATOL)
        for column, of_all in zip(credit_table(*batch.take(rows), estimator), table, strict=True):
            np.testing.assert_allclose(column, of_all[table.group == label], rtol=1e-12)


@given(batch=batches(), estimator=estimators)
def test_swapping_correct_and_incorrect_flips_the_sign(
    batch: Rollouts, estimator: Estimator
) -> None:
    credit = token_credit(*batch, estimator)
    swapped = token_credit(*batch._replace(correct=1 - batch.correct), estimator)
    np.testing.assert_allclose(swapped, -credit, rtol=0, atol=ATOL)


@given(batch=batches(), estimator=estimators)
def test_unknown_rollouts_might_as_well_not_be_there(batch: Rollouts, estimator: Estimator) -> None:
    known = ~np.isnan(batch.correct)
    credit = token_credit(*batch, estimator)
    got = token_credit(*batch.take(known), estimator)
    np.testing.assert_allclose(credit[known], got, rtol=0, atol=ATOL)
    assert np.all(credit[~known] == 0)


extremes = st.sampled_from([0.0, 1e-30, 1.0, 1e3, 1e30]) | st.floats(0, 1e30)
positive = st.sampled_from([1e-30, 1e-5, 2.0, 1e30]) | st.floats(1e-30, 1e30)


@pytest.mark.filterwarnings("error")
@given(
    batch=batches(),
    h1=extremes,
    h2=extremes,
    h3=extremes,
    k1=positive,
    eps=positive,
    b_len=st.floats(0, 1),
    normalize=st.booleans(),
    fisher=st.sampled_from(["two-sided", "point"]),
    scale=st.sampled_from([1.0, 2.0, 1e30]),
)
def test_credit_is_finite_and_bounded(
    backend: str, batch: Rollouts, scale: float, **settings: Any
) -> None:
    """To the bounds of what the settings take: nothing overflows, and 0 · inf makes no NaN."""
    assume(not settings["normalize"] or settings["h1"] + settings["h2"] >= 1e-30)
    estimator = Scaled(KTAE(**settings), scale)
    credit = by_backend.token_credit(*batch, estimator, backend=backend)
    assert credit.dtype == np.float32
    assert np.all(np.abs(credit) <= 0.5 * scale * (1 + 1e-6))  # false for NaN and inf
    table = by_backend.credit_table(*batch, estimator, backend=backend)
    assert all(np.all(np.isfinite(column)) for column in table)
    assert np.all((table.p_value > 0) & (table.p_value <= 1))
    assert np.all((table.fisher_score >= 0) & (table.fisher_score < 1))
    assert np.all((table.information_gain >= 0) & (table.information_gain <= 1 + 1e-12))


finite_rewards = st.floats(-100, 100, width=32)


@given(batch=batches(), estimator=estimators, data=st.data())
def test_own_base_is_added_where_unmasked(
    batch: Rollouts, estimator: Estimator, data: st.DataObject
) -> None:
    base = data.draw(hnp.arrays(np.float64, len(batch.groups), elements=finite_rewards))
    ids, mask, correct, groups = batch
    got = token_advantages(
        np.zeros(len(base)), ids, mask, groups,
        correct=correct, base=base, credit=estimator,
    )  # fmt: skip
    credit = token_credit(*batch, estimator)
    np.testing.assert_allclose(got, np.where(mask, base[:, None] + credit, 0), rtol=1e-6, atol=ATOL)
    assert np.all(got[~mask] == 0)


def rollout_advantage(base: str, reward: float, rewards: list[float]) -> float:
    """Origin: the methods' own formulas, by Python's `statistics` over one group at a time."""
    if len(rewards) == 1:
        return 0.0
    if base == "rloo":
        others = list(rewards)
        others.remove(reward)
        return reward - statistics.fmean(others)
    centred = reward - statistics.fmean(rewards)
    return centred / (statistics.stdev(rewards) + 1e-6) if base == "grpo" else centred


@settings(max_examples=100)
@given(batch=batches(), data=st.data(), base=st.sampled_from(["grpo", "dr_grpo", "rloo"]))
def test_rollout_advantages(base: str, batch: Rollouts, data: st.DataObject) -> None:
    """Where nothing is incorrect there is no credit. Rollouts without a token do not count; those
    of unknown correctness do, since they have a reward."""
    elements = st.sampled_from([0.0, 1.0]) | st.integers(-50, 50).map(lambda x: x / 8)
    rewards = data.draw(hnp.arrays(np.float64, len(batch.groups), elements=elements))
    got = token_advantages(
        rewards, batch.token_ids, batch.mask, batch.groups,
        correct=np.where(np.isnan(batch.correct), np.nan, 1), base=base,
    )  # fmt: skip
    counted = batch.mask.any(axis=1)
    for row in range(len(rewards)):
        in_group = rewards[counted & (batch.groups == batch.groups[row])].tolist()
        expected = rollout_advantage(base, rewards[row], in_group) if counted[row] else 0.0
        where = batch.mask[row]
        np.testing.assert_allclose(got[row, where], expected, rtol=1e-5, atol=ATOL)
        assert np.all(got[row, ~where] == 0)
