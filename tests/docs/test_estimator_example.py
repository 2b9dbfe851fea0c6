"""examples/mean_presence.py: what a test of an estimator asks."""

import itertools
import runpy

import numpy as np
import pages
import pytest

import ktae
from ktae.estimators import KINDS, Scaled, from_section, to_section

MeanPresence = runpy.run_path(str(pages.ROOT / "examples/mean_presence.py"))["MeanPresence"]

ROLLOUTS = [[1, 2, 2], [3], [2, 3, 1, 4], [4, 4], [1]]


def naive(correct, scale):
    """The reference: of one group, credit by rollout and token."""

    def share(token, verdict):
        rows = [row for row, right in zip(ROLLOUTS, correct, strict=True) if right == verdict]
        return sum(token in row for row in rows) / len(rows)

    return [[scale * (share(t, True) - share(t, False)) for t in row] for row in ROLLOUTS]


def computed(correct, scale):
    """The library's, padded and then without the padding, rollout after rollout."""
    mask = np.arange(4) < np.array([[len(row)] for row in ROLLOUTS])
    ids = np.zeros(mask.shape, dtype=int)
    ids[mask] = np.concatenate(ROLLOUTS)
    return ktae.token_credit(ids, mask, correct, np.zeros(5, int), MeanPresence(scale=scale))[mask]


def test_it_is_the_reference_and_its_mean_over_all_verdicts_is_zero():
    verdicts = [np.isin(range(5), right) for right in itertools.combinations(range(5), 2)]
    found = np.array([computed(correct, 0.5) for correct in verdicts])
    expected = [np.concatenate(naive(correct, 0.5)) for correct in verdicts]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-7)


def test_one_value_by_hand():
    """Token 3, in one of two correct rollouts and in one of three incorrect ones: 1/2 - 1/3."""
    assert computed([1, 1, 0, 0, 0], 1.0)[3] == pytest.approx(1 / 6)


def test_with_a_name_it_is_a_section_of_a_recipe(monkeypatch):
    monkeypatch.setitem(KINDS, "mean-presence", MeanPresence)
    wrapped = Scaled(MeanPresence(scale=0.5), 2.0)
    assert from_section(to_section(wrapped)) == wrapped
    with pytest.raises(ktae.InputError, match="scale is -1; expected a number from 0"):
        ktae.preset("mean-presence", scale=-1)
