"""What only the torch backend has: unchecked values on a device, its forms of arrays, and a bound
on its memory. A device is stood in for by the CPU, which the same code runs on."""

import functools
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_agreement import Rollouts, rollouts
from test_cpu import extra_bytes

from ktae import InputError, credit, token_advantages, token_credit
from ktae.backends import BACKENDS, resolve
from ktae.batch import Context
from ktae.estimators import (
    KTAE,
    Centred,
    Estimator,
    Function,
    GroupMean,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    RolloutMean,
    Scaled,
    ShuffledValues,
    preset,
)

torch = pytest.importorskip("torch")

from ktae.backends import tensors  # noqa: E402
from ktae.backends import torch as backend  # noqa: E402
from ktae.backends.tensors import HostRows, on_device  # noqa: E402

BATCH = rollouts([5, 3, 9], 31, shuffled=False)
IDS = np.where(BATCH.mask, BATCH.token_ids, 0)


@pytest.fixture
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU tensors take the path of those on a GPU."""
    monkeypatch.setattr(credit, "_stays_on_device", credit.is_tensor)


def on_path(token_ids: Any = None, **arguments: Any) -> np.ndarray:
    """`token_advantages` of BATCH on the device's path, with some arguments replaced."""
    given = {"mask": BATCH.mask, "groups": BATCH.groups, "correct": BATCH.correct}
    given |= {"rewards": np.arange(17.0), "validate": False} | arguments
    token_ids = torch.from_numpy(IDS) if token_ids is None else token_ids
    return token_advantages(token_ids=token_ids, backend="torch", **given).numpy()


@pytest.mark.parametrize("bad_id", [-1, -(2**63), 2**31, 2**32 + 5, 2**63 - 1])
def test_invalid_ids_harm_no_other_group(bad_id: int) -> None:
    """They are not looked at there, so what they get does not matter; nothing else may change."""
    expected = token_credit(*BATCH, backend="naive")
    ids = IDS.copy()
    row = 5 + int(np.argmax(BATCH.mask[5:8].sum(axis=1)))
    ids[row, np.flatnonzero(BATCH.mask[row])] = bad_id
    context = Context(functools.partial(backend.credit, memory_bytes=2**20))
    given = on_device(
        torch.from_numpy(ids), *BATCH[1:], score_range=None, context=context, validate=False
    )
    got = KTAE().credit(given).numpy()
    assert np.isfinite(got).all()
    others = np.r_[0:5, 8:17]
    np.testing.assert_allclose(got[others], expected[others], rtol=0, atol=1e-6)  # float32


def ids_of_correct(ids, mask, correct, groups):
    """A user's own estimator."""
    return ids * correct[:, None]


@pytest.mark.usefixtures("on_a_device")
@pytest.mark.parametrize(
    "estimator",
    [
        preset("calibrated"),
        preset("calibrated", graded_rewards=True),
        Ignoring(OverUnits(KTAE(graded_rewards=True), ("trigram", "position")), (1, 2)),
        PermutedLabels(KTAE()),
        Ignoring(PermutedLabels(KTAE(graded_rewards=True)), (1,)),
        OverUnits(ShuffledValues(KTAE()), ("token", "bigram")),
        RandomPlaces(KTAE()),
        Centred(preset("trigrams")),
        GroupMean(RolloutMean(KTAE())),
        Scaled(Function(ids_of_correct), 0.1),
    ],
    ids=str,
)
def test_estimators_on_a_device(estimator: Estimator) -> None:
    scores = np.round(np.random.default_rng(1).random(17), 2)
    correct = BATCH.correct
    if estimator.score_range is not None:
        correct = np.where(np.isnan(BATCH.correct), np.nan, scores)
    expected = token_advantages(
        np.arange(17.0), IDS, BATCH.mask, BATCH.groups, correct=correct, estimator=estimator,
        backend="naive",
    )  # fmt: skip
    for form in (np.asarray, torch.tensor):
        got = on_path(correct=form(correct), estimator=estimator)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.usefixtures("on_a_device")
def test_scores_out_of_range_do_no_harm_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tensors._on_host_or_tensor
    monkeypatch.setattr(
        tensors, "_on_host_or_tensor", lambda name, x: x if name == "correct" else seen(name, x)
    )
    for estimator in (KTAE(graded_rewards=True), PresenceZ(graded_rewards=True)):
        got = on_path(correct=torch.linspace(-3, 1e38, 17), estimator=estimator)
        assert np.isfinite(got).all()
        assert np.ptp(got[BATCH.groups == BATCH.groups[0]]) > 0


@pytest.mark.usefixtures("on_a_device")
@pytest.mark.parametrize("validate", [None, False, True])
def test_host_values_beside_a_devices_ids(validate: bool | None) -> None:
    """Lists and NumPy arrays work, and what is the host's is looked at without `validate` too."""
    rewards = np.arange(17.0)
    given = {"rewards": rewards, "token_ids": IDS, "mask": BATCH.mask, "groups": BATCH.groups}
    expected = token_advantages(**given, backend="naive")
    for form in (list, np.float32, torch.tensor):
        forms = {
            "rewards": rewards.tolist() if form is list else form(rewards),
            "mask": BATCH.mask.tolist() if form is list else BATCH.mask,
            "correct": None,
        }
        got = on_path(**forms, validate=validate)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32
    rewards[3] = np.nan
    for values in (rewards, rewards.tolist()):
        with pytest.raises(InputError, match=r"rewards\[3\] is nan"):
            on_path(rewards=values, validate=validate)
        with pytest.raises(InputError, match=r"base\[3\] is nan"):
            on_path(base=values, validate=validate)


@pytest.mark.usefixtures("on_a_device")
@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("token_ids", torch.tensor(3), "expected shape"),
        ("mask", [[1, 1], [1]], "mask is ragged"),
        ("mask", None, r"mask is object of shape \(\); expected bool"),
        ("correct", [1, None] + [0] * 15, r"correct is object of shape \(17,\)"),
        ("correct", [2] + [0] * 16, r"correct\[0\] is 2; expected 0, 1 or NaN"),
        ("base", None, r"base is object of shape \(\)"),
        ("rewards", ["a"] * 17, r"rewards is <U1 of shape \(17,\); expected numbers"),
        ("groups", torch.ones(3, dtype=torch.int64), r"groups is .* of shape \(3,\)"),
    ],
)
def test_errors_on_a_device_say_what_came(argument: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        on_path(**{argument: value})


@pytest.mark.usefixtures("on_a_device")
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_tensors_on_a_device(dtype: type) -> None:
    expected = on_path()
    ids, mask = (torch.from_numpy(x.astype(dtype)) for x in (IDS, BATCH.mask))
    groups = torch.from_numpy(BATCH.groups.astype(np.uint64))
    np.testing.assert_array_equal(on_path(ids, mask=mask, groups=groups, validate=True), expected)
    bad = IDS.astype(np.uint64)
    row = int(np.argmax(BATCH.mask.any(axis=1)))
    column = int(np.argmax(BATCH.mask[row]))
    bad[row, column] = 2**63 + 1
    message = rf"token_ids\[{row}, {column}\] is 9223372036854775809;"
    with pytest.raises(InputError, match=message):
        on_path(torch.from_numpy(bad), validate=True)


def test_a_devices_tensors_stay_there() -> None:
    """Whatever the device; but for MPS, which has no float64, `torch` by name is an error."""
    for device in ("xpu", "npu", "meta"):
        tensor = SimpleNamespace(device=SimpleNamespace(type=device))
        assert resolve("auto", tensor) is resolve("torch", tensor) is BACKENDS["torch"]
    assert credit._stays_on_device(torch.empty(1, 1, device="meta"))
    tensor.device.type = "mps"
    assert resolve("auto", tensor) is resolve("cpu", tensor) is BACKENDS["cpu"]
    with pytest.raises(InputError, match="device of type mps, which has no float64"):
        resolve("torch", tensor)


def packed(array: np.ndarray) -> np.ndarray:
    """The same as a field of packed records: its steps are no multiple of its size."""
    records = np.zeros(array.shape, dtype=[("flag", "u1"), ("value", array.dtype)])
    records["value"] = array
    return records["value"]


FORMS = {
    "packed ids": (packed(IDS), BATCH.mask),
    "packed mask": (IDS, packed(BATCH.mask.astype(np.float32))),
    "long double mask": (IDS, BATCH.mask.astype(np.longdouble)),
    "reversed": (IDS[::-1].copy()[::-1], BATCH.mask[:, ::-1].copy()[:, ::-1]),
    "read-only": (IDS.copy(), BATCH.mask.copy()),
    "other byte order": (IDS.astype(">i4"), BATCH.mask.astype(">f4")),
}
for array in FORMS["read-only"]:
    array.flags.writeable = False


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("memory_bytes", [0, 2**30])
def test_forms_of_arrays(fast_backend: str, name: str, memory_bytes: int) -> None:
    expected = token_credit(*BATCH, backend="naive")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = token_credit(
            *FORMS[name], *BATCH[2:], backend=fast_backend, memory_bytes=memory_bytes
        )
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


def test_host_rows_are_converted_where_they_are_looked_at() -> None:
    ids = np.array([[1, 2**64 - 1], [3, 4]], dtype=np.uint64)
    rows = HostRows(ids, is_mask=False)
    assert rows[torch.tensor([1, 0])].tolist() == [[3, 4], [1, 2**31]]
    assert rows[:1].dtype == torch.int64
    assert HostRows(ids[::-1] - 1, is_mask=True)[:].tolist() == [[True, True], [False, True]]


def test_group_numbers_are_independent_of_the_groups_size() -> None:
    """Pairs (a, b) are numbered by those that occur; a table of all would take gigabytes here."""
    n_rows = 40_000
    batch = Rollouts(
        np.arange(n_rows)[:, None] % 7,
        np.ones((n_rows, 1)),
        np.arange(n_rows) % 2,
        np.zeros(n_rows, dtype=int),
    )
    expected = token_credit(*batch, backend="cpu")
    got = token_credit(*batch, backend="torch")
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("memory_bytes", [2**26, 2**27])
@pytest.mark.parametrize(
    "form", [("int64", "bool", "read-only"), ("uint64", "float32", "strided")], ids=" ".join
)
def test_extra_memory_is_bounded(memory_bytes: int, form: tuple[str, str, str]) -> None:
    """50 to 100 MB of inputs, which must not be copied whole."""
    assert extra_bytes(2048, *form, backend="torch", memory_bytes=memory_bytes) < memory_bytes


@pytest.mark.usefixtures("on_a_device")
@pytest.mark.parametrize("chosen", ["cpu", "naive"])
def test_rewards_on_a_device_are_checked_where_they_are_used(chosen: str) -> None:
    """On MPS, or by choice, tensors of a device are taken to the host: its checks are theirs."""
    tensors_of = [torch.from_numpy(x) for x in (IDS, BATCH.mask.astype(np.int64), BATCH.groups)]
    ids, mask, groups = tensors_of
    for bad, message in ((np.nan, r"rewards\[3\] is nan"), (np.inf, r"rewards\[3\] is inf")):
        rewards = torch.arange(17.0)
        rewards[3] = bad
        with pytest.raises(InputError, match=message):
            token_advantages(rewards, ids, mask, groups, backend=chosen)
