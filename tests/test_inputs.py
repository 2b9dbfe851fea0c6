"""What the public functions take, and what they refuse, by name and place."""

import uuid
from collections.abc import Callable
from typing import Any

import by_backend
import numpy as np
import pytest
import torch

from ktae import InputError, credit_table, token_advantages, token_credit
from ktae.estimators import PresenceZ

IDS = np.array([[1, 2, 3, 4], [1, 2, 2, 5], [1, 6, 5, 5], [1, 6, 7, 3], [2, 6, 0, 0]])
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 0, 0]], dtype=bool)
CORRECT = np.array([1, 1, 0, 0, 1], dtype=bool)
GROUPS = np.array([4, 4, 9, 4, 4])
REWARDS = np.array([1.0, 0.5, 0.0, -0.5, 2.0])
GRADED_Z = PresenceZ(graded_rewards=True)
ARRAYS = {"token_ids": IDS, "mask": MASK, "correct": CORRECT, "groups": GROUPS}


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    credit = token_credit(**ARRAYS, credit="paper")
    assert np.count_nonzero(credit) == 13
    return credit


def assert_same(expected: np.ndarray, **changed: Any) -> None:
    for backend in ("naive", "cpu"):
        got = by_backend.token_credit(**(ARRAYS | changed), backend=backend)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


# --- what is taken


@pytest.mark.parametrize(
    ("dtype", "garbage"),
    [
        (np.int64, [-100, -(2**63), 2**63 - 1, 2]),
        (np.int32, [-100, -(2**31), -1, 2]),
        (np.uint64, [2**64 - 1, 2**63, 2**31, 2]),
    ],
)
def test_ids_at_masked_positions_may_be_anything(expected, dtype: type, garbage: list[int]) -> None:
    ids = IDS.astype(dtype)
    ids[~MASK] = garbage
    assert_same(expected, token_ids=ids)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i8", "u1", "u2", "u4", "u8", ">i4", ">i8", ">u2"])
def test_integer_dtypes(expected, dtype: str) -> None:
    assert_same(expected, token_ids=IDS.astype(dtype))
    assert credit_table(**(ARRAYS | {"token_ids": IDS.astype(dtype)})).token_id.dtype == np.int64


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("i1", 127), ("u1", 255), ("i2", 256), (">i2", 1), ("i8", 2**40)),
        *(("f2", 2), ("f4", 1), (">f4", 1), ("f8", 1e20)),
    ],
)
def test_mask_counts_where_it_is_not_0(expected, dtype: str, value: float) -> None:
    mask = np.zeros(MASK.shape, dtype=dtype)
    mask[MASK] = value
    assert_same(expected, mask=mask)
    assert len(credit_table(IDS, mask, CORRECT, GROUPS).credit) == 9


def _strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]


@pytest.mark.parametrize("layout", [np.asfortranarray, _strided, np.ndarray.tolist])
def test_layouts(expected, layout: Callable[[np.ndarray], Any]) -> None:
    for changed in ({"token_ids": layout(IDS)}, {"mask": layout(MASK)}):
        assert_same(expected, **changed)


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (0, 0)])
def test_empty_batch(shape: tuple[int, int]) -> None:
    n_rows, n_columns = shape
    ids, mask = IDS[:n_rows, :n_columns], MASK[:n_rows, :n_columns]
    correct, groups = CORRECT[:n_rows], GROUPS[:n_rows]
    got = token_advantages(REWARDS[:n_rows], ids, mask, groups)
    for array in (token_credit(ids, mask, correct, groups), got):
        assert (array.shape, array.dtype) == (shape, np.float32)
    full = credit_table(**ARRAYS)
    for name, column in credit_table(ids, mask, correct, groups)._asdict().items():
        assert (column.shape, column.dtype) == ((0,), getattr(full, name).dtype), name


@pytest.mark.parametrize("writeable", [True, False])
def test_inputs_are_never_modified_and_never_returned(writeable: bool) -> None:
    """Read-only arrays work, and writing into a result changes no input."""
    before = ARRAYS | {"rewards": REWARDS, "base": REWARDS}
    inputs = {name: array.copy() for name, array in before.items()}
    for array in inputs.values():
        array.flags.writeable = writeable
    got = token_advantages(**inputs)
    assert got.flags.writeable
    assert not any(np.shares_memory(got, array) for array in inputs.values())
    credit_table(*(inputs[name] for name in ARRAYS))
    for name, array in before.items():
        np.testing.assert_array_equal(inputs[name], array, err_msg=name)


def test_none_is_unknown_and_uuids_are_labels() -> None:
    ids, mask, label = [[1], [2], [3]], [[1]] * 3, uuid.uuid4()
    got = token_credit(ids, mask, [True, False, None], [label] * 3, "paper")
    np.testing.assert_array_equal(got, token_credit(ids, mask, [1, 0, np.nan], [0] * 3, "paper"))
    assert got[0, 0] == 0.5 and got[2, 0] == 0


# --- labels of groups

BIG = 2**70


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-BIG, BIG), (-1, 2**63), (1, 2**64), ("a", "a\0"), (b"a", b"a\0"), (np.int8(1), 5),
        ("prompt-10", "prompt-7"), (-(2**63), 2**63 - 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("form", [list, tuple, lambda x: np.array(x, dtype=object)])
def test_different_labels_are_different_groups(expected, low, high, form) -> None:
    """Those that NumPy's own types would make equal, too; the table has them as they are."""
    labels = [low, low, high, low, low]
    assert_same(expected, groups=form(labels))
    table = credit_table(IDS, MASK, CORRECT, form(labels))
    assert sorted(set(table.group.tolist())) == [low, high]
    assert table.group.tolist() == sorted(table.group.tolist())


# --- what is refused


@pytest.fixture(params=[by_backend.token_credit, credit_table], ids=["compiled", "NumPy"])
def estimate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Both take the same arguments, and look at the ids in ways of their own."""
    return request.param


@pytest.mark.parametrize("bad", [-1, 2**31, 2**32 + 5, -(2**63)])
@pytest.mark.parametrize("row", [0, 3, 4])
def test_bad_token_id_names_row_and_column(estimate, row: int, bad: int) -> None:
    ids = IDS.copy()
    ids[row, 1] = bad
    with pytest.raises(ValueError, match=rf"^token_ids\[{row}, 1\] is {bad};"):
        estimate(ids, MASK, CORRECT, GROUPS)


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
def test_bad_token_id_is_found_where_nothing_is_counted(estimate, correct, groups) -> None:
    ids = IDS.copy()
    ids[3, 2] = -100
    with pytest.raises(InputError, match=r"^token_ids\[3, 2\]"):
        estimate(ids, MASK, correct, groups)


def _mask_with(bad: float, dtype: type) -> np.ndarray:
    mask = MASK.astype(dtype)
    mask[2, 1] = mask[3, 0] = bad
    return mask


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"token_ids": IDS.astype(float)}, r"^token_ids .*float64.*\(5, 4\)"),
        ({"token_ids": IDS[0]}, r"^token_ids .*\(4,\).*\(B, T\)"),
        ({"token_ids": [[1, 2], [1]]}, "^token_ids .*ragged"),
        ({"token_ids": np.ma.masked_array(IDS, mask=~MASK)}, "^token_ids .*masked"),
        ({"mask": MASK[:, :3]}, r"^mask .*\(5, 3\).*\(5, 4\)"),
        ({"mask": _mask_with(np.nan, np.float32)}, r"^mask\[2, 1\].*nan"),
        ({"mask": _mask_with(0.5, np.float16)}, r"^mask\[2, 1\].*0\.5"),
        ({"mask": _mask_with(-1, np.int8)}, r"^mask\[2, 1\].*-1"),
        ({"correct": CORRECT[:4]}, r"^correct .*\(4,\).*\(5,\)"),
        ({"correct": [1, 0.5, 0, 0, 0.7]}, r"^correct\[1\]"),
        ({"correct": [True, "no", 0, 0, 0]}, r"^correct .*NaN"),
        ({"correct": [np.inf] * 5, "credit": GRADED_Z}, r"^correct\[0\].*inf.*1e\+30"),
        ({"groups": [1, 2]}, r"^groups .*\(2,\).*\(5,\)"),
        ({"groups": GROUPS / 2}, "^groups .*float64"),
        ({"groups": [1, 1, 1, "1", "1"]}, r"^groups\[0\].*groups\[3\]"),
        ({"groups": [[1]] * 5}, r"^groups\[0\]"),
    ],
    ids=lambda x: "" if isinstance(x, str) else next(iter(x)),
)
def test_message_says_what_came_and_what_was_expected(changed, message: str) -> None:
    with pytest.raises(InputError, match=message):
        token_credit(**(ARRAYS | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": REWARDS[:4]}, r"^rewards .*\(4,\).*\(5,\)"),
        ({"rewards": [0, 0, 0, np.nan, np.inf]}, r"^rewards\[3\].*nan"),
        ({"base": IDS}, r"^base .*\(5, 4\).*\(5,\)"),
        ({"base": [0, -np.inf, 0, 0, 0]}, r"^base\[1\].*-inf"),
        ({"base": "ppo"}, "^base .*'ppo'"),
        ({"threshold": np.nan}, "^threshold .*nan"),
    ],
    ids=lambda x: "" if isinstance(x, str) else next(iter(x)),
)
def test_message_of_token_advantages(changed: dict[str, Any], message: str) -> None:
    arguments = {"rewards": REWARDS, "token_ids": IDS, "mask": MASK, "groups": GROUPS}
    with pytest.raises(InputError, match=message):
        token_advantages(**(arguments | changed))


@pytest.mark.parametrize("name", ["rewards", "base"])
@pytest.mark.parametrize("base", ["grpo", "dr_grpo", "rloo"])
def test_number_too_large_for_float32(name: str, base: str) -> None:
    """No NaN or inf is ever returned. Up to 1e30 all is finite, beyond it is refused."""
    arguments = ARRAYS | {"rewards": REWARDS, "base": base, name: REWARDS * 1e30 / 2}
    assert np.all(np.isfinite(token_advantages(**arguments)))
    arguments[name] = REWARDS[::-1] * 1e38
    with pytest.raises(InputError, match=rf"^{name}\[0\].*2e\+38"):
        token_advantages(**arguments)


# --- tensors


TENSORS = {name: torch.from_numpy(array.copy()) for name, array in ARRAYS.items()}
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_give_a_tensor_on_the_same_device(expected, device: str) -> None:
    """Rewards and a base that require gradients are detached: an advantage is a constant."""
    moved = {name: tensor.to(device) for name, tensor in TENSORS.items()}
    got = token_credit(**moved, credit="paper")
    assert (got.dtype, got.device.type, got.requires_grad) == (torch.float32, device, False)
    np.testing.assert_allclose(got.cpu().numpy(), expected, rtol=0, atol=1e-6)  # float32
    rewards = torch.tensor(REWARDS, dtype=torch.float32, device=device, requires_grad=True)
    for base in ("grpo", rewards):
        got = token_advantages(rewards, **moved, base=base)
        of_arrays = token_advantages(
            REWARDS, **ARRAYS, base=base if isinstance(base, str) else REWARDS
        )
        assert (got.device.type, got.requires_grad) == (device, False)
        np.testing.assert_allclose(got.cpu().numpy(), of_arrays, rtol=0, atol=1e-6)  # float32
    for name, column in credit_table(**moved)._asdict().items():
        np.testing.assert_array_equal(column, getattr(credit_table(**ARRAYS), name))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda x: x.to_sparse(), "sparse_coo"),
        (lambda x: x.to("meta"), "meta"),
        (lambda x: torch.quantize_per_tensor(x.float(), 1.0, 0, torch.qint8), "quantized"),
    ],
    ids=["sparse", "meta", "quantized"],
)
def test_tensors_without_values_are_refused_by_name(make, kind: str) -> None:
    for name, tensor in TENSORS.items():
        with pytest.raises(InputError, match=f"^{name} .*{kind}"):
            token_credit(**(TENSORS | {name: make(tensor)}))
    with pytest.raises(InputError, match=f"^rewards .*{kind}"):
        token_advantages(make(torch.ones(5)), IDS, MASK, GROUPS)
