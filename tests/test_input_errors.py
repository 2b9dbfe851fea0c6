"""What the errors say: what came, what was expected, and where."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ktae import InputError, credit_table, token_advantages, token_credit

IDS = np.array([[1, 2, 3, 4], [1, 2, 2, 5], [1, 6, 5, 5], [1, 6, 7, 3], [2, 6, 0, 0]])
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 0, 0]], dtype=bool)
CORRECT = np.array([1, 1, 0, 0, 1], dtype=bool)
GROUPS = np.array([4, 4, 4, 4, 9])
REWARDS = np.array([1.0, 0.5, 0.0, -0.5, 2.0])


@pytest.fixture(params=[token_credit, credit_table])
def estimate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Both take the same arguments."""
    return request.param


# --- token ids out of range


@pytest.mark.parametrize("bad", [-1, -100, 2**31, 2**32 + 5, 2**62, -(2**63)])
@pytest.mark.parametrize("row", [0, 3, 4])
def test_bad_token_id_names_row_and_column(
    estimate: Callable[..., Any], row: int, bad: int
) -> None:
    ids = IDS.copy()
    ids[row, 1] = bad
    with pytest.raises(
        ValueError, match=rf"token_ids\[{row}, 1\] is {bad}; expected 0 to 2\^31 - 1"
    ):
        estimate(ids, MASK, CORRECT, GROUPS)


def test_first_bad_token_id_in_reading_order(estimate: Callable[..., Any]) -> None:
    """The first row that holds one, whatever the order of the groups, and its first column."""
    ids = IDS.copy()
    ids[1, 3] = -100  # masked
    ids[2, 1], ids[2, 3], ids[3, 0], ids[4, 0] = -3, -4, -5, -6
    groups = [7, 7, 7, 7, 2]  # row 4's group is the first
    with pytest.raises(InputError, match=r"token_ids\[2, 1\] is -3;"):
        estimate(ids, MASK, CORRECT, groups)
    with pytest.raises(InputError, match=r"token_ids\[1, 0\] is -6;"):
        estimate(ids[[0, 4]], MASK[[0, 4]], [1, 0], [1, 0])
    ids[0, 0] = -7  # in a group that comes later than that of row 4
    with pytest.raises(InputError, match=r"token_ids\[0, 0\] is -7;"):
        estimate(ids, MASK, CORRECT, groups)


@pytest.mark.parametrize(
    ("correct", "groups"),
    [
        ([1, 1, 0, np.nan, 1], [0, 0, 0, 0, 0]),
        ([1, 1, 1, 1, 1], [0, 0, 0, 0, 0]),
        ([1, 1, 0, 0, 0], [0, 0, 0, 1, 0]),
        ([np.nan] * 5, [0, 0, 0, 0, 0]),
    ],
    ids=["unknown", "degenerate", "group of one", "nothing known"],
)
def test_bad_token_id_is_found_where_nothing_is_counted(
    estimate: Callable[..., Any], correct: list[float], groups: list[int]
) -> None:
    ids = IDS.copy()
    ids[3, 2] = -100
    with pytest.raises(InputError, match=r"token_ids\[3, 2\] is -100;"):
        estimate(ids, MASK, correct, groups)


# --- values, shapes and dtypes that do not fit


def _changed_name(parameter: dict[str, Any] | str) -> str:
    return "" if isinstance(parameter, str) else next(iter(parameter))


@pytest.mark.parametrize("name", ["rewards", "base"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_number_that_is_not_finite_names_its_row(name: str, value: float) -> None:
    arguments = {"rewards": REWARDS.copy(), "base": REWARDS.copy()}
    arguments[name][[3, 4]] = value
    with pytest.raises(ValueError, match=rf"{name}\[3\] is {value}; expected a finite number"):
        token_advantages(token_ids=IDS, mask=MASK, groups=GROUPS, **arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"token_ids": IDS.astype(float)}, r"token_ids is float64 of shape \(5, 4\); expected int"),
        ({"token_ids": IDS[0]}, r"token_ids is int64 of shape \(4,\); .* shape \(B, T\)"),
        ({"token_ids": IDS[None]}, r"token_ids is int64 of shape \(1, 5, 4\); .* shape \(B, T\)"),
        ({"token_ids": IDS > 2}, r"token_ids is bool of shape \(5, 4\); expected integers"),
        ({"token_ids": IDS.astype(str)}, r"token_ids is <U21 of shape \(5, 4\); expected integers"),
        ({"mask": MASK[:, :3]}, r"mask is bool of shape \(5, 3\); .* token_ids, \(5, 4\)"),
        ({"mask": MASK[0]}, r"mask is bool of shape \(4,\); .* token_ids, \(5, 4\)"),
        ({"mask": MASK.astype(str)}, r"mask is <U5 of shape \(5, 4\); expected bool, integers"),
        ({"mask": MASK.astype(complex)}, r"mask is complex128 of shape \(5, 4\); expected bool"),
        ({"correct": CORRECT[:4]}, r"correct is bool of shape \(4,\); expected shape \(5,\)"),
        ({"correct": CORRECT[:, None]}, r"correct is bool of shape \(5, 1\); expected shape \(5,"),
        ({"correct": True}, r"correct is bool of shape \(\); expected shape \(5,\)"),
        ({"correct": [1, 1, 0, 0, 2]}, r"correct\[4\] is 2; expected 0, 1 or NaN"),
        ({"correct": [1, 1, -1, 0, 0]}, r"correct\[2\] is -1; expected 0, 1 or NaN"),
        ({"correct": [1, 0.5, 0, 0, 0.7]}, r"correct\[1\] is 0.5; expected 0, 1 or NaN"),
        ({"correct": [1, np.inf, 0, 0, 0]}, r"correct\[1\] is inf; expected 0, 1 or NaN"),
        ({"correct": [True, None, 0, 0, 0]}, r"correct is object of shape \(5,\); .* NaN"),
        (
            {"groups": np.array([0, "a", 1, 2, 3], dtype=object)},
            r"groups\[0\] is 0 and groups\[1\] is 'a'; expected integers or strings, and not both",
        ),
        ({"correct": list("11000")}, r"correct is <U1 of shape \(5,\); expected bool, or 0, 1"),
        ({"groups": GROUPS[:3]}, r"groups is int64 of shape \(3,\); expected shape \(5,\)"),
        ({"groups": 7}, r"groups is int64 of shape \(\); expected shape \(5,\)"),
        (
            {"groups": GROUPS / 2},
            r"groups is float64 of shape \(5,\); expected integers or strings",
        ),
    ],
    ids=_changed_name,
)
def test_message_says_what_came_and_what_was_expected(
    estimate: Callable[..., Any], changed: dict[str, Any], message: str
) -> None:
    arguments = {"token_ids": IDS, "mask": MASK, "correct": CORRECT, "groups": GROUPS}
    with pytest.raises(ValueError, match=message) as caught:
        estimate(**(arguments | changed))
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": REWARDS[:4]}, r"rewards is float64 of shape \(4,\); expected shape \(5,\)"),
        ({"rewards": 1.0}, r"rewards is float64 of shape \(\); expected shape \(5,\)"),
        ({"rewards": list("abcde")}, r"rewards is <U1 of shape \(5,\); expected numbers"),
        ({"base": REWARDS[:4]}, r"base is float64 of shape \(4,\); expected shape \(5,\)"),
        ({"base": IDS}, r"base is int64 of shape \(5, 4\); expected shape \(5,\)"),
        ({"base": list("abcde")}, r"base is <U1 of shape \(5,\); expected numbers"),
        ({"base": "ppo"}, r"base is 'ppo'; expected 'grpo', 'dr_grpo', 'rloo' or "),
    ],
    ids=_changed_name,
)
def test_message_of_token_advantages(changed: dict[str, Any], message: str) -> None:
    arguments = {
        "rewards": REWARDS, "token_ids": IDS, "mask": MASK, "groups": GROUPS,
    }  # fmt: skip
    with pytest.raises(InputError, match=message):
        token_advantages(**(arguments | changed))


@pytest.mark.parametrize("name", ["rewards", "base"])
@pytest.mark.parametrize("base", ["grpo", "dr_grpo", "rloo"])
def test_number_too_large_for_float32(name: str, base: str) -> None:
    """No NaN or inf is ever returned. Up to 1e30 all is finite, beyond it is refused."""
    arguments = {"rewards": REWARDS, "base": base, name: REWARDS * 1e30 / 2}
    got = token_advantages(token_ids=IDS, mask=MASK, groups=GROUPS, correct=CORRECT, **arguments)
    assert np.all(np.isfinite(got))
    arguments[name] = REWARDS[::-1] * 1e38
    with pytest.raises(
        InputError, match=rf"{name}\[0\] is 2e\+38; expected a finite number within"
    ):
        token_advantages(token_ids=IDS, mask=MASK, groups=GROUPS, correct=CORRECT, **arguments)


@pytest.mark.parametrize("threshold", [np.nan, np.inf, "0.5", None, True])
def test_threshold_is_a_finite_number(threshold: Any) -> None:
    with pytest.raises(InputError, match=r"threshold is .*; expected a (finite )?number"):
        token_advantages(REWARDS, IDS, MASK, GROUPS, threshold=threshold)


def test_threshold_may_be_a_number_of_numpys() -> None:
    usual = token_advantages(REWARDS, IDS, MASK, GROUPS, threshold=0.5)
    for threshold in (np.float32(0.5), np.float64(0.5)):
        same = token_advantages(REWARDS, IDS, MASK, GROUPS, threshold=threshold)
        np.testing.assert_array_equal(same, usual)


@pytest.mark.parametrize("name", ["token_ids", "mask", "correct", "groups"])
def test_a_masked_array_would_lose_its_mask(estimate: Callable[..., Any], name: str) -> None:
    arguments = {"token_ids": IDS, "mask": MASK, "correct": CORRECT, "groups": GROUPS}
    arguments[name] = np.ma.masked_array(arguments[name], mask=False)
    with pytest.raises(InputError, match=f"{name} is a masked array; expected a plain one"):
        estimate(**arguments)


@pytest.mark.parametrize("name", ["token_ids", "mask"])
def test_ragged_lists(estimate: Callable[..., Any], name: str) -> None:
    arguments = {"token_ids": IDS, "mask": MASK, name: [[1, 2, 3, 4], [1], [1], [1], [1]]}
    with pytest.raises(InputError, match=f"{name} is ragged; expected rows of equal length"):
        estimate(**arguments, correct=CORRECT, groups=GROUPS)
