"""What the bench says of estimators whose credit is known."""

import numpy as np
import pytest

from ktae.bench import pointing
from ktae.bench.worlds import WORLDS
from ktae.estimators import Function, as_estimator

SMALL = {"few-decisions": WORLDS["few-decisions"](1 / 10)}


def by_name(results: list[pointing.Result]) -> dict[str, pointing.Result]:
    return {r.estimator: r for r in results}


def share(result: pointing.Result) -> float:
    assert result.share_of_ceiling is not None
    return result.share_of_ceiling.value


@pytest.fixture(scope="module")
def measured() -> dict[str, pointing.Result]:
    results, left = pointing.measure(
        SMALL, {name: as_estimator(name) for name in ("backoff", "paper", "trigrams")}
    )
    assert not left
    return by_name(results)


def test_the_rows_that_are_always_there(measured) -> None:
    assert set(pointing.CONTROLS) < set(measured)
    assert share(measured["GRPO"]) == 0
    assert share(measured["exact"]) == pytest.approx(1)
    assert share(measured["random"]) < 0.1
    assert share(measured["permuted"]) < 0.1
    exact = measured["exact"]
    assert exact.average_precision == 1
    assert exact.sign == 1
    assert exact.base_rate == pytest.approx(0.1, abs=0.05)


def test_tokens_decide_where_they_have_names_of_their_own(measured) -> None:
    assert share(measured["paper"]) > 0.5
    assert share(measured["backoff"]) > 0.5
    assert abs(share(measured["trigrams"])) < 0.3
    assert measured["backoff"].best_weight > 1
    assert measured["backoff"].cosine.low > measured["GRPO"].cosine.high


def test_exact_credit_of_a_stranger_reaches_the_ceiling() -> None:
    """A function that knows the world has a share of 1, and its sign reversed a share below 0."""
    course = pointing.Course("x", SMALL["few-decisions"])
    known = {
        (tokens.tobytes(), correct): exact
        for tokens, correct, exact in zip(
            course.responses.tokens, course.responses.correct, course.exact, strict=True
        )
    }

    def oracle(token_ids, mask, correct, groups):
        rows = zip(token_ids, correct.astype(float), strict=True)
        return np.array([known[ids.tobytes(), c] for ids, c in rows])

    credit = course.credit(Function(oracle))
    assert share(course.result("oracle", credit, None)) == pytest.approx(1)
    assert share(course.result("reversed", -credit, None)) < 0


def test_what_fails_is_named_and_leaves_the_others() -> None:
    def broken(token_ids, mask, correct, groups):
        raise ZeroDivisionError("mine")

    def not_finite(token_ids, mask, correct, groups):
        return np.full(mask.shape, np.nan)

    def wrong_shape(token_ids, mask, correct, groups):
        return np.zeros(3)

    mine = {"a": broken, "b": not_finite, "c": wrong_shape}
    estimators = {name: Function(f) for name, f in mine.items()}
    results, left = pointing.measure(SMALL, estimators | {"paper": as_estimator("paper")})
    assert [(x.estimator, x.world, x.is_error) for x in left] == [
        (name, "few-decisions", True) for name in mine
    ]
    assert {"GRPO", "exact", "paper"} <= set(by_name(results))


def test_what_a_world_lacks_is_left_out() -> None:
    agents = as_estimator("anchor-states")
    words = as_estimator({"estimator": "ktae", "transforms": [{"over-units": ["word"]}]})
    assert pointing.lacks(agents, SMALL["few-decisions"])
    assert pointing.lacks(agents, WORLDS["rooms"]()) is None
    assert pointing.lacks(words, WORLDS["rooms"]())
    by_turn = as_estimator("turn-rewards")
    assert pointing.lacks(by_turn, WORLDS["rooms"]())
    assert pointing.lacks(by_turn, WORLDS["look-ups"]()) is None
    # The policy is known, so its log-probabilities and entropies are there.
    results, left = pointing.measure(SMALL, {"entropy": as_estimator("entropy-weights")})
    assert not left
    assert "entropy" in by_name(results)


def test_rewards_by_turn_point_where_the_truth_does() -> None:
    """And where the policy chooses the number of turns, MT-GRPO's expected gradient is biased."""
    names = ("turn-rewards", "mt-grpo", "backoff")
    estimators = {name: as_estimator(name) for name in names}
    results, left = pointing.measure({"look-ups": WORLDS["look-ups"]()}, estimators)
    by_turn, mt_grpo, backoff = (by_name(results)[name] for name in names)
    assert not left and by_turn.permuted_share is None
    assert min(share(by_turn), share(mt_grpo)) > share(backoff)
    assert by_turn.bias < 0.05 < mt_grpo.bias and by_turn.best_share > mt_grpo.best_share


def test_no_share_where_exact_advantages_add_nothing() -> None:
    course = pointing.Course("x", SMALL["few-decisions"])
    course.ceiling = course.grpo.copy()
    assert course.share(course.grpo) is None
