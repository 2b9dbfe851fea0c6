"""What the adapters share."""

import math

import numpy as np
import pytest
from placement import by_id, reference

import ktae
from ktae.errors import InputError
from ktae.trainers import lists
from ktae.trainers.lists import Rollout, Settings, by_part, credit_of, spread

IDS = [[5, 6, 6, 7], [5, 8], [6, 7, 9], [5, 8, 8, 8, 4], [1, 2], [2, 1, 1]]
GROUPS = ["a", ("b", 1), "a", "a", ("b", 1), ("b", 1)]
SCORES = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]


def rollouts(scores=SCORES):
    return [Rollout(*row) for row in zip(IDS, GROUPS, scores, [0.5, 0.1] * 3, strict=True)]


def test_credit_is_the_cores():
    found = credit_of(rollouts(), Settings("paper"))
    expected = reference(IDS, SCORES, [0, 1, 0, 0, 1, 1])
    for row, other in zip(found.lists, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-6)


def test_rollouts_without_tokens_and_no_rollouts():
    empty = [Rollout([], "a", 1.0), Rollout([], "a", 0.0)]
    assert credit_of(empty, Settings()).lists == [[], []]
    assert credit_of([], Settings()).lists == []
    with_one = credit_of([*rollouts(), Rollout([], "a", 1.0)], Settings())
    assert with_one.lists[:-1] == credit_of(rollouts(), Settings()).lists
    assert with_one.lists[-1] == []


@pytest.mark.parametrize(
    ("threshold", "above", "equal"),
    [(2, 3, 2), (0.1, 1.0, float(np.float32(0.1))), (1e300, 1.1e300, 1e300)],
)
def test_a_score_is_a_verdict_by_the_threshold_at_its_own_precision(threshold, above, equal):
    scores = [above, equal, equal, above, above, equal]
    credited = credit_of(rollouts(scores), Settings(threshold=threshold))
    assert credited.lists == credit_of(rollouts(), Settings()).lists


def test_an_unknown_rollout_is_no_evidence():
    unknown = credit_of(rollouts([math.nan, *SCORES[1:]]), Settings())
    without = credit_of(rollouts()[1:], Settings())
    assert unknown.lists[0] == [0.0] * 4
    for row, other in zip(unknown.lists[1:], without.lists, strict=True):
        assert row == pytest.approx(other, abs=1e-6)


def test_a_graded_estimator_takes_the_score():
    settings = Settings({"estimator": "calibrated", "graded_rewards": True}, threshold=0.9)
    assert np.abs(credit_of(rollouts([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), settings).lists[0]).max() > 0


def test_metrics_have_the_names_of_every_engine():
    pytest.importorskip("torch", reason="metrics are computed with torch")
    metrics = credit_of(rollouts(), Settings()).metrics()
    values = np.concatenate(credit_of(rollouts(), Settings()).lists)
    assert metrics["credit/mean_abs"] == pytest.approx(np.abs(values).mean(), abs=1e-6)
    assert metrics["credit/correct"] == 0.5
    assert {"credit/seconds", "credit/sign_flips", "credit/skipped/all_correct"} <= set(metrics)


def test_scores_by_name():
    named = [{"right": 1, "length": 5}, {"right": None}, {"length": 3}]
    found = Settings(correctness="right").scores([9, 9, 9], named)
    assert found[0] == 1.0 and math.isnan(found[1]) and math.isnan(found[2])
    assert Settings().scores([9, None], [{}, {}])[0] == 9.0
    with pytest.raises(InputError, match=r"correctness is 'wrong'.*'length', 'right'"):
        Settings(correctness="wrong").scores([9, 9, 9], named)


def test_a_group_may_be_without_any_score_whatever_was_asked_before(logged):
    """prime-rl and Trinity ask one group at a time. A wrong name is an error there, too."""
    lists._warned.clear()
    settings = Settings(correctness="right")
    assert math.isnan(settings.scores([9], [{"right": None}])[0])  # the name is known
    assert settings.scores([], []) == []
    assert not logged
    for _ in range(2):
        assert all(map(math.isnan, settings.scores([9, 9], [{}, {}])))
        with pytest.raises(InputError, match=r"expected a reward or metric .*'length'"):
            settings.scores([9, 9], [{"length": 5}, {}])
        assert settings.scores([9, 9], [{"right": 1}, {"length": 5}])[0] == 1.0
        assert all(map(math.isnan, settings.scores([9], [{"length": 5}], is_step=False)))
    assert len(logged) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"correctnes": "x"}, "did you mean 'correctness'"),
        ({"credit": 7}, "credit is 7"),
        ("calibrated", "options of token credit are 'calibrated'; expected a mapping"),
        ({"threshold": math.nan}, "threshold is nan"),
        (
            {"credit": {"estimator": "calibrated", "transforms": [{"over-units": "word"}]}},
            "made of text",
        ),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Settings.of(options)


def test_what_cannot_work_says_so_before_the_run():
    assert Settings(by_id).tried().credit is by_id
    scaled = {"estimator": "paper", "transforms": [{"decayed": 10}, {"scaled": 2}]}
    assert Settings(scaled).tried(step=0).estimator.needs_step
    for credit, name in (
        (scaled, "step"), ("advantage-reweighting", "log_probs"), ("entropy-weights", "entropies"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"needs {name}, and this trainer hands none over"):
            Settings(credit).tried()
    with pytest.raises(InputError, match="shape"):
        Settings(lambda token_ids, mask, correct, groups: np.zeros(3)).tried()


def test_a_group_whose_contrast_has_no_token_is_skipped():
    pytest.importorskip("torch", reason="the metrics need it")
    rollouts = [Rollout([1, 2], "a", 1.0), Rollout([], "a", 0.0)]
    credited = credit_of(rollouts, Settings())
    assert credited.lists == [[0.0, 0.0], []]
    assert credited.metrics()["credit/skipped/all_correct"] == 1.0


def test_turns_are_told_apart_by_what_others_wrote_between_them():
    """The prompt of each rollout, and what stands after its last turn, are as long as they like."""
    rows = [
        [
            ([8] * n, [0] * n),
            ([1, first], [1, 1]),
            ([9, 9], [0, 0]),
            ([last], [1]),
            ([7] * n, [0] * n),
        ]
        for n, first, last in ((3, 2, 4), (0, 2, 5), (1, 3, 4), (2, 2, 4))
    ]
    scores = [1.0, 0.0, 0.0, 1.0]
    batch = [Rollout.of_parts(row, "a", score) for row, score in zip(rows, scores, strict=True)]
    over_turns = {"estimator": "paper", "transforms": [{"over-units": "turn"}]}
    for credit in ("anchor-states", over_turns):
        ids = np.array([[1, 2, 9, 9, 4], [1, 2, 9, 9, 5], [1, 3, 9, 9, 4], [1, 2, 9, 9, 4]])
        expected = ktae.token_credit(ids, ids != 9, scores, [0] * 4, credit)
        lists = credit_of(batch, Settings(credit)).lists
        np.testing.assert_allclose(lists, expected[:, [0, 1, 4]], atol=1e-6)
        assert len({row[0] for row in lists}) > 1 and lists[0][0] != lists[0][2]


def test_values_go_to_the_parts_that_their_tokens_came_from():
    parts = [([5, 6, 7], [0, 1, 1.0]), ([], []), ([8], [False]), ([9], [True])]
    rollout = Rollout.of_parts(parts, "a", 1.0)
    assert rollout.token_ids == [6, 7, 8, 9] and rollout.mask == [True, True, False, True]
    assert by_part([1.0, 2.0, 3.0], parts) == [[1.0, 2.0], [], [], [3.0]]
    assert spread([1.0, 2.0, 3.0], parts) == [[0.0, 1.0, 2.0], [], [0.0], [3.0]]
    assert by_part([], []) == spread([], []) == []
    assert Rollout.of_parts([([3], [0])], "a", 1.0).token_ids == []


def test_where_nothing_is_known_no_share_of_correct_ones_is_logged():
    """A trainer averages what is logged, and 0 would say that all were wrong."""
    pytest.importorskip("torch", reason="metrics are computed with torch")
    metrics = credit_of(rollouts([math.nan] * len(SCORES)), Settings()).metrics()
    assert metrics["credit/unknown"] == 1.0 and "credit/correct" not in metrics
