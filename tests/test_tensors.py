"""torch tensors in, torch tensors out; everything that NumPy's arrays do, they do too."""

from typing import Any

import numpy as np
import pytest

from ktae import credit_table, token_advantages, token_credit

torch = pytest.importorskip("torch")

IDS = np.array([[1, 2, 3, 4], [1, 2, 2, 5], [1, 6, 5, 5], [1, 6, 7, 3]])
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)
CORRECT = np.array([1.0, 1.0, 0.0, 0.0])
GROUPS = np.array([4, 4, 4, 4])
REWARDS = np.array([1.0, 0.5, 0.0, -0.5])
ARRAYS = {"token_ids": IDS, "mask": MASK, "correct": CORRECT, "groups": GROUPS}

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    return {name: torch.from_numpy(array.copy()) for name, array in ARRAYS.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_give_a_tensor_on_the_same_device(tensors: dict[str, Any], device: str) -> None:
    moved = {name: tensor.to(device) for name, tensor in tensors.items()}
    expected = token_credit(**ARRAYS)
    got = token_credit(**moved)
    assert isinstance(got, torch.Tensor)
    assert got.dtype == torch.float32
    assert got.device.type == device
    assert not got.requires_grad
    np.testing.assert_array_equal(got.cpu().numpy(), expected)
    assert np.count_nonzero(expected) == 8


@pytest.mark.parametrize("device", DEVICES)
def test_advantages_of_tensors(tensors: dict[str, Any], device: str) -> None:
    """Rewards and a base that require gradients are detached: an advantage is a constant."""
    moved = {name: tensor.to(device) for name, tensor in tensors.items()}
    rewards = torch.tensor(REWARDS, dtype=torch.float32, device=device, requires_grad=True)
    for base in ("grpo", torch.tensor([1.0, 2, 3, 4], device=device, requires_grad=True)):
        got = token_advantages(rewards, **moved, base=base)
        expected = token_advantages(
            REWARDS, **ARRAYS, base=base if isinstance(base, str) else [1, 2, 3, 4]
        )
        assert got.device.type == device
        assert not got.requires_grad
        np.testing.assert_allclose(got.cpu().numpy(), expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.parametrize("ids_dtype", [torch.int16, torch.int32, torch.int64, torch.uint8])
@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.int64, torch.float32, torch.float16])
def test_dtypes_of_tensors(tensors: dict[str, Any], ids_dtype, mask_dtype) -> None:
    changed = {
        "token_ids": tensors["token_ids"].to(ids_dtype),
        "mask": tensors["mask"].to(mask_dtype),
        "correct": tensors["correct"].bool(),
        "groups": tensors["groups"].to(ids_dtype),
    }
    got = token_credit(**changed)
    assert got.dtype == torch.float32
    np.testing.assert_array_equal(got.numpy(), token_credit(**ARRAYS))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("name", ["rewards", "mask", "correct", "base"])
def test_small_floats(tensors: dict[str, Any], name: str, dtype: Any) -> None:
    """NumPy has none of these, but trainers do: floats are floats."""
    arguments = dict(tensors, rewards=torch.from_numpy(REWARDS), base=torch.from_numpy(REWARDS))
    expected = token_advantages(**arguments)
    arguments[name] = arguments[name].to(dtype)
    got = token_advantages(**arguments)
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_the_result_is_of_the_token_ids_kind(tensors: dict[str, Any]) -> None:
    others = {name: array for name, array in ARRAYS.items() if name != "token_ids"}
    assert isinstance(token_credit(tensors["token_ids"], **others), torch.Tensor)
    others = {name: tensor for name, tensor in tensors.items() if name != "token_ids"}
    assert isinstance(token_credit(IDS, **others), np.ndarray)
    assert isinstance(token_credit(IDS.tolist(), **others), np.ndarray)


def test_layouts_of_tensors(tensors: dict[str, Any]) -> None:
    changed = tensors | {
        "token_ids": tensors["token_ids"].t().contiguous().t(),
        "mask": tensors["mask"].repeat_interleave(2, dim=1)[:, ::2],
    }
    assert not changed["token_ids"].is_contiguous()
    got = token_credit(**changed)
    np.testing.assert_array_equal(got.numpy(), token_credit(**ARRAYS))


def test_tensors_are_left_alone_and_share_no_memory(tensors: dict[str, Any]) -> None:
    arguments = dict(tensors, rewards=torch.from_numpy(REWARDS.copy()), base=torch.zeros(4))
    before = {name: tensor.clone() for name, tensor in arguments.items()}
    first = token_advantages(**arguments)
    kept = first.clone()
    first += 7  # an in-place operation on an advantage is common in trainers
    for name, tensor in arguments.items():
        assert torch.equal(tensor, before[name]), name
    assert torch.equal(token_advantages(**arguments), kept)


def test_table_of_tensors_is_numpy(tensors: dict[str, Any]) -> None:
    table = credit_table(**tensors)
    expected = credit_table(**ARRAYS)
    for name, column in expected._asdict().items():
        assert isinstance(getattr(table, name), np.ndarray), name
        np.testing.assert_array_equal(getattr(table, name), column, err_msg=name)
