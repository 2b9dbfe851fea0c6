"""What may come in, what comes back, and what the errors say: what came, and what was expected."""

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


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    credit = token_credit(IDS, MASK, CORRECT, GROUPS)
    assert np.count_nonzero(credit) == 8
    return credit


# --- every token id that is allowed, and anything where masked


@pytest.mark.parametrize(
    ("dtype", "garbage"),
    [
        (np.int64, [-100, -(2**63), 2**63 - 1, 2]),
        (np.int32, [-100, -(2**31), -1, 2]),
        (np.uint64, [2**64 - 1, 2**63, 2**31, 2]),
    ],
)
def test_ids_at_masked_positions_may_be_anything(
    expected: np.ndarray, dtype: type, garbage: list[int]
) -> None:
    ids = IDS.astype(dtype)
    ids[~MASK] = garbage
    got = token_credit(ids, MASK, CORRECT, GROUPS)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_smallest_and_largest_token_id(expected: np.ndarray, dtype: type) -> None:
    ids = np.select([IDS == 2, IDS == 6], [2**31 - 1, 0], default=IDS).astype(dtype)
    got = token_credit(ids, MASK, CORRECT, GROUPS)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32
    table = credit_table(ids, MASK, CORRECT, GROUPS)
    assert {0, 2**31 - 1} <= set(table.token_id.tolist())


# --- no rollouts, no tokens


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (0, 0)])
def test_empty_batch(shape: tuple[int, int]) -> None:
    n_rows, n_columns = shape
    ids, mask = IDS[:n_rows, :n_columns], MASK[:n_rows, :n_columns]
    correct, groups, rewards = CORRECT[:n_rows], GROUPS[:n_rows], REWARDS[:n_rows]
    for got in (
        token_credit(ids, mask, correct, groups),
        token_advantages(rewards, ids, mask, groups),
    ):
        assert (got.shape, got.dtype) == (shape, np.float32)
    table = credit_table(ids, mask, correct, groups)
    full = credit_table(IDS, MASK, CORRECT, GROUPS)
    for name, column in table._asdict().items():
        assert column.shape == (0,), name
        assert column.dtype == getattr(full, name).dtype, name


# --- every dtype and layout


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">i8", ">u2"]
)
def test_integer_dtypes(expected: np.ndarray, dtype: str) -> None:
    got = token_credit(IDS.astype(dtype), MASK, CORRECT, GROUPS)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32
    table = credit_table(IDS.astype(dtype), MASK, CORRECT, GROUPS)
    assert table.token_id.dtype == np.int64


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("?", True), ("i1", 1), ("i1", 127), ("u1", 1), ("u1", 255), ("i2", 256), (">i2", 1),
        ("i8", 1), ("i8", 2**40), ("f2", 1), ("f2", 2), ("f4", 1), ("f4", 3), (">f4", 1),
        ("f8", 1), ("f8", 1e20),
    ],
)  # fmt: skip
def test_mask_counts_where_it_is_not_0(expected: np.ndarray, dtype: str, value: float) -> None:
    mask = np.zeros(MASK.shape, dtype=dtype)
    mask[MASK] = value
    got = token_credit(IDS, mask, CORRECT, GROUPS)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32
    table = credit_table(IDS, mask, CORRECT, GROUPS)
    assert len(table.credit) == 9


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8, np.float16, np.float32, list])
def test_dtypes_of_correct(expected: np.ndarray, dtype: type) -> None:
    correct = CORRECT.tolist() if dtype is list else CORRECT.astype(dtype)
    got = token_credit(IDS, MASK, correct, GROUPS)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "b", "b", "b", "a"]),
        np.array([b"b", b"b", b"b", b"b", b"a"]),
        ["prompt-7"] * 4 + ["prompt-10"],
        np.array(["b", "b", "b", "b", "a"], dtype=object),  # as verl's uid
        np.array([-(2**63)] * 4 + [2**63 - 1]),
        np.array([2**64 - 1] * 4 + [0], dtype=np.uint64),
        np.array([3, 3, 3, 3, -3], dtype=np.int8),
    ],
    ids=["str", "bytes", "list", "objects", "int64", "uint64", "int8"],
)
def test_group_labels(expected: np.ndarray, labels: Any) -> None:
    got = token_credit(IDS, MASK, CORRECT, labels)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32
    table = credit_table(IDS, MASK, CORRECT, labels)
    assert table.group.dtype.kind == np.array(list(labels)).dtype.kind
    assert set(table.group.tolist()) == set(np.asarray(labels).tolist())
    assert table.group.tolist() == sorted(table.group.tolist())


def _strided(array: np.ndarray) -> np.ndarray:
    wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), dtype=array.dtype)
    wide[::2, ::3] = array
    return wide[::2, ::3]


def _unaligned(array: np.ndarray) -> np.ndarray:
    memory = np.empty(array.nbytes + 1, dtype=np.uint8)[1:]
    memory[:] = np.frombuffer(array.tobytes(), dtype=np.uint8)
    return memory.view(array.dtype).reshape(array.shape)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda array: array[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": _unaligned,
    "lists": np.ndarray.tolist,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of", ["ids", "mask", "both"])
def test_layouts(expected: np.ndarray, layout: str, of: str) -> None:
    ids, mask = (
        LAYOUTS[layout](array) if of in (name, "both") else array
        for name, array in (("ids", IDS), ("mask", MASK))
    )
    got = token_credit(ids, mask, CORRECT, GROUPS)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


# --- inputs are left alone


def test_inputs_are_never_modified_and_never_returned() -> None:
    """Read-only arrays work, and writing into a result changes no input."""
    inputs = {
        "rewards": REWARDS.copy(),
        "token_ids": IDS.copy(),
        "mask": MASK.copy(),
        "groups": GROUPS.copy(),
        "correct": CORRECT.astype(float),
        "base": REWARDS.astype(np.float64),
    }
    before = {name: array.copy() for name, array in inputs.items()}
    for writeable in (True, False):
        for array in inputs.values():
            array.flags.writeable = writeable
        got = token_advantages(**inputs)
        assert not any(np.shares_memory(got, array) for array in inputs.values())
        assert got.flags.writeable
        token_credit(*(inputs[name] for name in ("token_ids", "mask", "correct", "groups")))
        credit_table(*(inputs[name] for name in ("token_ids", "mask", "correct", "groups")))
        for name, array in inputs.items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)


# --- errors


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
        ({"token_ids": IDS > 2}, r"token_ids is bool of shape \(5, 4\); expected integers"),
        ({"mask": MASK[:, :3]}, r"mask is bool of shape \(5, 3\); .* token_ids, \(5, 4\)"),
        ({"mask": MASK[0]}, r"mask is bool of shape \(4,\); .* token_ids, \(5, 4\)"),
        ({"mask": MASK.astype(str)}, r"mask is <U5 of shape \(5, 4\); expected bool, integers"),
        ({"correct": CORRECT[:4]}, r"correct is bool of shape \(4,\); expected shape \(5,\)"),
        ({"correct": True}, r"correct is bool of shape \(\); expected shape \(5,\)"),
        ({"correct": [1, 1, 0, 0, 2]}, r"correct\[4\] is 2; expected 0, 1 or NaN"),
        ({"correct": [1, 1, -1, 0, 0]}, r"correct\[2\] is -1; expected 0, 1 or NaN"),
        ({"correct": [1, 0.5, 0, 0, 0.7]}, r"correct\[1\] is 0.5; expected 0, 1 or NaN"),
        ({"correct": [1, np.inf, 0, 0, 0]}, r"correct\[1\] is inf; expected 0, 1 or NaN"),
        ({"correct": [True, None, 0, 0, 0]}, r"correct is object of shape \(5,\); .* NaN"),
        ({"correct": list("11000")}, r"correct is <U1 of shape \(5,\); expected bool, or 0, 1"),
        ({"groups": GROUPS[:3]}, r"groups is int64 of shape \(3,\); expected shape \(5,\)"),
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
