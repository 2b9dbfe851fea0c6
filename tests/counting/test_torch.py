"""What only the torch backend has: unchecked values on a device, and a bound on its memory.

A device is stood in for by the CPU, which the same code runs on.
"""

from typing import Any

import numpy as np
import oracle
import pytest
import torch
from awkward_batches import Rollouts, rollouts
from by_backend import computed_by

from ktae import InputError, credit, device_batch, token_advantages, token_credit
from ktae.arrays import on_supported_device
from ktae.estimators import (
    KTAE,
    Centred,
    Estimator,
    Function,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    Scaled,
    preset,
)

BATCH = rollouts([5, 3, 9], 31, shuffled=False)
IDS = np.where(BATCH.mask, BATCH.token_ids, 0)


@pytest.fixture
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU tensors take the path of those on a GPU."""
    monkeypatch.setattr(credit, "on_supported_device", credit.is_tensor)
    on_host = device_batch._on_host_or_tensor
    monkeypatch.setattr(
        device_batch,
        "_on_host_or_tensor",
        lambda name, x: x.detach() if isinstance(x, torch.Tensor) else on_host(name, x),
    )


def on_path(token_ids: Any = None, **arguments: Any) -> np.ndarray:
    """`token_advantages` of BATCH on the device's path, with some arguments replaced."""
    values = {"mask": BATCH.mask, "groups": BATCH.groups, "correct": BATCH.correct}
    values |= {"rewards": np.arange(17.0)} | arguments
    token_ids = torch.from_numpy(IDS) if token_ids is None else token_ids
    return token_advantages(token_ids=token_ids, **values).numpy()


@pytest.mark.parametrize("bad_id", [-1, -(2**63), 2**31, 2**32 + 5, 2**63 - 1])
def test_invalid_ids_harm_no_other_group(bad_id: int) -> None:
    """They are not looked at there, so what they get does not matter; nothing else may change."""
    expected = oracle.token_credit(*BATCH, "paper")
    ids = IDS.copy()
    row = 5 + int(np.argmax(BATCH.mask[5:8].sum(axis=1)))
    ids[row, np.flatnonzero(BATCH.mask[row])] = bad_id
    given = device_batch.batch_on_device(torch.from_numpy(ids), *BATCH[1:])
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
        Ignoring(OverUnits(PresenceZ(graded_rewards=True), ("trigram", "bigram")), (1, 2)),
        PermutedLabels(KTAE()),
        Ignoring(PermutedLabels(PresenceZ(graded_rewards=True)), (1,)),
        RandomPlaces(KTAE()),
        Centred(preset("trigrams")),
        Centred(KTAE()),
        Scaled(Function(ids_of_correct), 0.1),
    ],
    ids=str,
)
def test_estimators_on_a_device(estimator: Estimator) -> None:
    scores = np.round(np.random.default_rng(1).random(17), 2)
    correct = BATCH.correct
    if estimator.takes_scores:
        correct = np.where(np.isnan(BATCH.correct), np.nan, scores)
    expected = oracle.token_advantages(
        np.arange(17.0), IDS, BATCH.mask, BATCH.groups, correct=correct, credit=estimator
    )
    for form in (np.asarray, torch.tensor):
        got = on_path(correct=form(correct), credit=estimator)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.usefixtures("on_a_device")
def test_scores_out_of_range_do_no_harm_where_nobody_looks() -> None:
    graded_z = PresenceZ(graded_rewards=True)
    got = on_path(correct=torch.linspace(-3, 1e38, 17), credit=graded_z)
    assert np.isfinite(got).all()
    assert np.ptp(got[BATCH.groups == BATCH.groups[0]]) > 0


@pytest.mark.usefixtures("on_a_device")
def test_host_values_beside_a_devices_ids() -> None:
    """Lists and NumPy arrays work, and what is the host's is looked at."""
    rewards = np.arange(17.0)
    given = {"rewards": rewards, "token_ids": IDS, "mask": BATCH.mask, "groups": BATCH.groups}
    given["credit"] = "paper"
    expected = oracle.token_advantages(**given)
    for form in (list, np.float32, torch.tensor):
        forms = {
            "rewards": rewards.tolist() if form is list else form(rewards),
            "mask": BATCH.mask.tolist() if form is list else BATCH.mask,
            "correct": None,
            "credit": "paper",
        }
        np.testing.assert_allclose(on_path(**forms), expected, rtol=0, atol=1e-6)  # float32
    rewards[3] = np.nan
    for values in (rewards, rewards.tolist()):
        with pytest.raises(InputError, match=r"^rewards\[3\]"):
            on_path(rewards=values)
        with pytest.raises(InputError, match=r"^base\[3\]"):
            on_path(base=values)


@pytest.mark.usefixtures("on_a_device")
def test_errors_on_a_device_say_what_came() -> None:
    with pytest.raises(InputError, match=r"^groups .*\(3,\)"):
        on_path(groups=torch.ones(3, dtype=torch.int64))
    with pytest.raises(InputError, match=r"^mask\[.*0\.5"):
        on_path(mask=np.where(BATCH.mask, 0.5, 0))
    with pytest.raises(InputError, match=r"^correct\[0\]"):
        on_path(correct=[2] + [0] * 16)


def test_a_devices_tensors_stay_there() -> None:
    assert on_supported_device(torch.empty(1, 1, device="meta"))
    assert not on_supported_device(torch.empty(1, 1)) and not on_supported_device([[1]])


def test_a_group_of_40_000() -> None:
    """Pairs (a, b) are numbered by those that occur; a table of all would take gigabytes here."""
    n_rows = 40_000
    batch = Rollouts(
        np.arange(n_rows)[:, None] % 7,
        np.ones((n_rows, 1)),
        np.arange(n_rows) % 2,
        np.zeros(n_rows, dtype=int),
    )
    expected = token_credit(*batch)
    with computed_by("torch"):
        np.testing.assert_allclose(token_credit(*batch), expected, rtol=0, atol=1e-6)  # float32
