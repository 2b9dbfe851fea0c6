"""Credit that follows the order of tokens: whole arrays against plain loops."""

from unittest import mock

import numpy as np
import pytest
from by_backend import token_credit
from hypothesis import given
from hypothesis import strategies as st
from test_agreement import BATCHES, Rollouts, digest, graded, rollouts

from ktae.backends import naive_sequences
from ktae.batch import make_batch
from ktae.errors import InputError
from ktae.estimators import (
    ConflictTokens,
    Estimator,
    GroupMean,
    Ignoring,
    OverUnits,
    Scaled,
    ShuffledValues,
    Tempo,
    sequences,
)

ESTIMATORS: dict[str, Estimator] = {
    "tempo": Tempo(),
    "tempo, raw": Ignoring(Tempo(scale_by_std=False), (1,)),
    "tempo, graded": Scaled(Tempo(graded_rewards=True), 0.3),
    "conflict": ConflictTokens(),
    "conflict, everywhere": Ignoring(ConflictTokens(runs=False), (0, 2)),
    "conflict, graded": ConflictTokens(graded_rewards=True, amplify=1.3, scale_by_std=False),
}

SMALL = [name for name, batch in BATCHES.items() if batch.mask.size < 20_000]


def few_tokens(batch: Rollouts) -> Rollouts:
    """The same with two tokens, so that rollouts have much in common."""
    return batch._replace(token_ids=np.where(batch.mask, batch.token_ids % 2, batch.token_ids))


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_agreement(estimator: Estimator) -> None:
    nonzero = 0
    for name in SMALL:
        for batch in (BATCHES[name], few_tokens(BATCHES[name])):
            own = graded(batch, estimator)
            expected = token_credit(*own, estimator, backend="naive")
            got = token_credit(*own, estimator)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6, err_msg=name)
            nonzero += np.count_nonzero(expected)
    assert nonzero > 2000


@st.composite
def batches(draw):
    n, width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cells = st.lists(st.integers(0, 2), min_size=n * width, max_size=n * width)
    ids = np.array(draw(cells)).reshape(n, width)
    mask = np.array(draw(cells)).reshape(n, width) > 0
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.7, 1.0, np.nan]), min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return ids, mask, np.array(scores), np.array(groups)


@given(batches(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1, 5, 1000]))
def test_agreement_on_whatever_there_is(batch, looked_up, runs, scale_by_std, at_once) -> None:
    """With holes, unknown rollouts that are looked up, several groups; with and without runs."""
    made = make_batch(*batch, score_range=(-1.0, 1.0))
    made = made._replace(look_up_unknown=looked_up, ignored=(2,))
    both = {"scale_by_std": scale_by_std}
    conflict = both | {"amplify": 1.7, "runs": runs}
    with mock.patch.multiple(sequences, POSITIONS_AT_ONCE=at_once, CHECKED_AT_ONCE=at_once):
        of_tempo, of_conflict = Tempo(**both).credit(made), ConflictTokens(**conflict).credit(made)
    for got, expected in (
        (of_tempo, naive_sequences.tempo(made, **both)),
        (of_conflict, naive_sequences.conflict_tokens(made, **conflict)),
    ):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
        assert np.all(got[~batch[1]] == 0) and np.all(np.isfinite(got))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.int16])
def test_dtypes_and_tensors(dtype: type) -> None:
    torch = pytest.importorskip("torch")
    batch = few_tokens(rollouts([16, 3, 47, 16], 31))
    expected = token_credit(*batch, Tempo(), backend="naive")
    ids = np.where(batch.mask, batch.token_ids, 0).astype(dtype)
    for array in (ids, np.asfortranarray(ids)):
        got = token_credit(array, batch.mask.astype(np.int64), *batch[2:], Tempo())
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    if dtype != np.uint32:
        tensors = [torch.from_numpy(array) for array in (ids, batch.mask, batch.correct)]
        got = token_credit(*tensors, batch.groups, Tempo())
        assert isinstance(got, torch.Tensor)
        np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("backend", ["naive", "cpu"])
@pytest.mark.parametrize("estimator", [Tempo(), ConflictTokens()], ids=repr)
@pytest.mark.parametrize("bad", [-5, 2**31])
def test_the_first_bad_token_id_is_named(backend: str, estimator: Estimator, bad: int) -> None:
    ids, mask, correct, groups = rollouts([4, 5, 4], 13, seed=4)
    ids = np.where(mask, ids, 0)
    rows = np.flatnonzero(mask.any(axis=1))
    for row in rows[[3, 4, -1]]:
        ids[row, np.flatnonzero(mask[row])[-1]] = bad
    column = np.flatnonzero(mask[rows[3]])[-1]
    with pytest.raises(ValueError, match=rf"token_ids\[{rows[3]}, {column}\] is {bad};"):
        token_credit(ids, mask, correct, groups, estimator, backend=backend)


def test_threads_and_chunks_change_nothing() -> None:
    """2.4 million positions are divided; the rows of some groups alone must be the same."""
    batch = few_tokens(rollouts([16] * 200, 750, seed=8))
    some = np.isin(batch.groups, np.unique(batch.groups)[::40])
    for estimator in (Tempo(), ConflictTokens()):
        whole = token_credit(*batch, estimator)
        part = token_credit(*(array[some] for array in batch), estimator)
        assert digest(whole[some]) == digest(part)
        assert np.count_nonzero(part) > 100


def test_what_wraps_them() -> None:
    batch = BATCHES["sorted"]
    (means,) = {
        tuple(np.unique(row[row != 0]).tolist())
        for row in token_credit(*batch, GroupMean(ConflictTokens()))[:16]
        if row.any()
    }
    assert len(means) == 1
    with pytest.raises(InputError, match="RandomPlaces and PermutedLabels are controls of it"):
        ShuffledValues(OverUnits(Tempo(), ("token",)).inner)
