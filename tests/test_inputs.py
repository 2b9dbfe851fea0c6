"""What may come in and what comes back."""

from typing import Any

import numpy as np
import pytest

from ktae import credit_table, token_advantages, token_credit

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
