"""Credit that follows the order of tokens: whole arrays against plain loops."""

from unittest import mock

import naive_sequences
import numpy as np
import pytest
from by_backend import token_credit
from hypothesis import given
from hypothesis import strategies as st
from test_agreement import BATCHES, Rollouts, graded, rollouts

from ktae.batch import make_batch
from ktae.estimators import ConflictTokens, Estimator, Ignoring, Scaled, Tempo, sequences

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
            scored = graded(batch, estimator)
            expected = token_credit(*scored, estimator, backend="naive")
            got = token_credit(*scored, estimator)
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
    """With holes, unknown rollouts that are looked up, several groups, in chunks of any size."""
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
        assert np.all(got[~batch[1]] == 0)


def test_a_large_batch_is_divided() -> None:
    """2.4 million positions; the rows of some groups alone must be the same."""
    batch = few_tokens(rollouts([16] * 200, 750, seed=8))
    some = np.isin(batch.groups, np.unique(batch.groups)[::40])
    for estimator in (Tempo(), ConflictTokens()):
        together = token_credit(*batch, estimator)
        alone = token_credit(*(array[some] for array in batch), estimator)
        np.testing.assert_array_equal(together[some], alone)
        assert np.count_nonzero(alone) > 100
