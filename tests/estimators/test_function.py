"""What a function of the user's is given as an estimator, and what it must give."""

import numpy as np
import pytest

from ktae import InputError, credit_table, token_credit
from ktae.estimators import KTAE, as_estimator, preset

NAN = float("nan")
IDS = np.array([[5, 6, 7], [5, 6, -9], [6, 7, 7], [5, 5, 6], [-1, -1, -1], [6, 5, 7]])
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]], dtype=bool)
CORRECT = np.array([1, 0, NAN, 0, 1, 1])
GROUPS = np.array(["b", "a", "b", "b", "a", "a"])
EVIDENCE = [0, 1, 3, 5]  # not 2, which nobody could grade, nor 4, which has no token
BATCH = (IDS, MASK, CORRECT, GROUPS)


def presence(token_ids, mask, correct, groups):
    """The token's share of correct rollouts that hold it, less its share of incorrect ones."""
    credit = np.zeros(token_ids.shape)
    for i, t in np.argwhere(mask):
        holds = ((token_ids == token_ids[i, t]) & mask).any(axis=1)
        own = groups == groups[i]
        credit[i, t] = holds[own & correct].mean() - holds[own & ~correct].mean()
    return credit


def test_it_is_given_the_rollouts_that_can_be_evidence():
    seen = []

    def estimate(*arrays):
        seen.append(arrays)
        return np.full(arrays[0].shape, 7.0)

    credit = token_credit(*BATCH, estimate)
    ((token_ids, mask, correct, groups),) = seen
    assert (token_ids.dtype, mask.dtype, correct.dtype) == (np.int64, bool, bool)
    np.testing.assert_array_equal(token_ids[mask], IDS[EVIDENCE][MASK[EVIDENCE]])
    np.testing.assert_array_equal(mask, MASK[EVIDENCE])
    np.testing.assert_array_equal(correct, [True, False, False, True])
    assert (groups[:, None] == groups).tolist() == (
        GROUPS[EVIDENCE][:, None] == GROUPS[EVIDENCE]
    ).tolist()
    assert credit.dtype == np.float32
    expected = np.where(MASK & np.isin(np.arange(6), EVIDENCE)[:, None], 7, 0)
    np.testing.assert_array_equal(credit, expected)


def test_its_credit_is_the_ones_that_count():
    credit = token_credit(*BATCH, presence)
    # Group b: rollout 0 is correct, 3 is not; a: 5 is, 1 is not. Token 7 is in the correct ones.
    expected = [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(credit, expected)


def test_tensors_for_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensors = (torch.tensor(IDS), torch.tensor(MASK), torch.tensor(CORRECT), GROUPS)
    credit = token_credit(*tensors, lambda *x: torch.from_numpy(presence(*x)).half())
    assert credit.dtype == torch.float32
    np.testing.assert_array_equal(credit.numpy(), token_credit(*BATCH, presence))


def test_a_function_may_write_into_what_it_is_given():
    def estimate(token_ids, mask, correct, groups):
        credit = presence(token_ids, mask, correct, groups)
        for array in (token_ids, mask, correct, groups):
            array[:] = 0
        return credit

    before = [array.copy() for array in BATCH]
    np.testing.assert_array_equal(token_credit(*BATCH, estimate), token_credit(*BATCH, presence))
    for array, old in zip(BATCH, before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_without_evidence_it_is_not_called():
    def never(*_):
        raise AssertionError

    unknown = np.full(6, NAN)
    assert not token_credit(IDS, MASK, unknown, GROUPS, never).any()
    nothing = np.zeros((0, 3), dtype=int)
    assert token_credit(nothing, nothing, np.zeros(0), np.zeros(0, int), never).shape == (0, 3)


def infinite(token_ids, mask, correct, groups):
    """In a group without incorrect rollouts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return presence(token_ids, mask, correct, groups) / np.where(groups, 1.0, 0.0)[:, None]


def at_masked_positions(token_ids, mask, correct, groups):
    return np.where(mask, 1.0, NAN)


def test_what_it_gives_at_masked_positions_does_not_matter():
    credit = token_credit(*BATCH, at_masked_positions)
    np.testing.assert_array_equal(credit[EVIDENCE], MASK[EVIDENCE])


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        (lambda i, m, c, g: c, r"<lambda> gave bool of shape \(4,\); expected numbers of shape \("),
        (lambda i, m, c, g: i[:, :2], r"int64 of shape \(4, 2\); expected .* shape \(4, 3\)"),
        (lambda i, m, c, g: None, r"gave object of shape \(\)"),
        (lambda i, m, c, g: i.astype(str), r"shape \(4, 3\); expected numbers"),
        (lambda i, m, c, g: [[1.0], []] * 2, "what .*<lambda> gave is ragged"),
        (
            infinite,
            r"infinite gave nan for token 5 of rollout 1 in group a \(1 of 2 correct\); "
            r"expected a finite number",
        ),
    ],
    ids=["a number a rollout", "other length", "nothing", "text", "ragged", "not finite"],
)
def test_what_is_no_credit_is_refused(estimate, message):
    with pytest.raises(InputError, match=message):
        token_credit(*BATCH, estimate)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (3, "here is 3; expected an estimator of ktae.estimators, the name of one"),
        (preset, r"preset\(.*does not take four arrays; expected a function \(token_ids, mask"),
        (KTAE, "KTAE.*does not take four arrays"),
        (lambda ids, mask: 0, r"<lambda>\(ids, mask\) does not take four arrays"),
    ],
    ids=["number", "function of presets", "class", "two arguments"],
)
def test_what_is_no_estimator_is_refused(estimator, message):
    with pytest.raises(InputError, match=message):
        as_estimator(estimator, "here")
    with pytest.raises(InputError):
        token_credit(*BATCH, estimator)


def test_it_gets_verdicts_and_has_no_table():
    assert as_estimator(presence).score_range is None
    with pytest.raises(InputError, match="rests on no contingency tables, so it has no"):
        credit_table(*BATCH, presence)
