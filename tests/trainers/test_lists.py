"""What the adapters share."""

import math

import numpy as np
import pytest
from placement import by_id, reference

from ktae.errors import InputError
from ktae.trainers.lists import Rollout, credit_of
from ktae.trainers.settings import Settings

IDS = [[5, 6, 6, 7], [5, 8], [6, 7, 9], [5, 8, 8, 8, 4], [1, 2], [2, 1, 1]]
GROUPS = ["a", ("b", 1), "a", "a", ("b", 1), ("b", 1)]
SCORES = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]


def credit(scores=SCORES, settings=Settings("paper"), ids=IDS):  # noqa: B008
    parts = [[(row, [1] * len(row))] for row in ids]
    return credit_of(list(map(Rollout, parts, GROUPS, scores, [0.5, 0.1] * 3)), settings)


def test_rollouts_without_tokens_and_no_rollouts():
    nothing = [Rollout([([], [])], "a", 1.0), Rollout([], "a", 0.0)]
    assert credit_of(nothing, Settings()).parts == [[[]], []]
    assert credit_of([], Settings()).parts == []


@pytest.mark.parametrize(
    ("threshold", "above", "equal"),
    [(2, 3, 2), (0.1, 1.0, float(np.float32(0.1))), (1e300, 1.1e300, 1e300)],
)
def test_a_score_is_a_verdict_by_the_threshold_at_its_own_precision(threshold, above, equal):
    scores = [above, equal, equal, above, above, equal]
    assert credit(scores, Settings("paper", threshold=threshold)).parts == credit().parts


def test_rewards_of_several_values_are_warned_of_once_where_nobody_set_a_threshold(logged):
    def warned(scores, **settings):
        logged.clear()
        credit(scores, Settings("paper", correctness="shaped", **settings))
        return len(logged)

    assert warned(SCORES) == 0
    shaped = [1.0, 0.3, 0.0, 1.0, 0.3, 0.0]
    assert warned(shaped, threshold=0.5) == 0
    assert [warned(shaped), warned(shaped)] == [1, 0]


def test_an_unknown_rollout_is_no_evidence():
    unknown = credit([math.nan, *SCORES[1:]])
    assert unknown.parts[0] == [[0.0] * 4]
    expected = reference(IDS[1:], SCORES[1:], [1, 0, 0, 1, 1])
    for (row,), other in zip(unknown.parts[1:], expected, strict=True):
        assert row == pytest.approx(other, abs=1e-6)


def test_a_graded_estimator_takes_the_score():
    settings = Settings({"estimator": "calibrated", "graded_rewards": True}, threshold=0.9)
    assert np.abs(credit([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], settings).parts[0]).max() > 0


def test_metrics_have_the_names_of_every_engine():
    assert credit().metrics()["credit/correct"] == 0.5
    # A trainer averages what is logged, and 0 would say that all were wrong.
    unknown = credit([math.nan] * len(SCORES)).metrics()
    assert unknown["credit/unknown"] == 1.0 and "credit/correct" not in unknown


def test_a_group_whose_contrast_has_no_token_is_skipped():
    credited = credit_of([Rollout([([1, 2], [1, 1])], "a", 1.0), Rollout([], "a", 0.0)], Settings())
    assert credited.parts == [[[0.0, 0.0]], []]
    assert credited.metrics()["credit/skipped/all_correct"] == 1.0


def test_scores_by_name(logged):
    """prime-rl and Trinity ask one group at a time, which may lack every score."""
    settings = Settings(correctness="right")
    named = [{"right": 1, "length": 5}, {"right": None}]
    np.testing.assert_equal(settings.scores([9, 9], named), [1.0, math.nan])
    np.testing.assert_equal(Settings().scores([9, None], [{}, {}]), [9.0, math.nan])
    assert not logged
    for _ in range(2):
        np.testing.assert_equal(settings.scores([9, 9], [*named[:1], {}]), [1.0, math.nan])
        np.testing.assert_equal(settings.scores([9], [{}]), [math.nan])
        np.testing.assert_equal(settings.scores([9], [{"length": 5}], is_step=False), [math.nan])
        with pytest.raises(InputError) as error:
            settings.scores([9, 9], [{"length": 5}, {}])
        assert all(name in str(error.value) for name in ("correctness is 'right'", "length"))
    assert len(logged) == 1


def test_what_cannot_work_says_so_before_the_run():
    assert Settings(by_id).tried().credit is by_id
    with pytest.raises(InputError) as error:
        Settings("advantage-reweighting").tried()
    assert "log_probs" in str(error.value)
    with pytest.raises(InputError):
        Settings(lambda token_ids, mask, correct, groups: np.zeros(3)).tried()
