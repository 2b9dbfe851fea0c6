"""Labels and masks that NumPy would silently take for others, and tensors that hold no values."""

import numpy as np
import pytest
import torch

from ktae import InputError, class_credit, credit_table, token_advantages, token_credit

IDS = np.array([[1, 2], [1, 3], [1, 2], [1, 3]])
MASK = np.ones((4, 2), dtype=bool)
CORRECT = [1, 0, 0, 1]
GROUPS = [0, 0, 1, 1]
BIG = 2**70


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-BIG, BIG),
        (-1, 2**63),
        (1, 2**64),
        ("a", "a\0"),
        (b"a", b"a\0"),
        ("", "\0"),
        (np.int8(1), 5),
        (torch.tensor(1), torch.tensor(2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [list, tuple, lambda x: np.array(x, dtype=object)])
def test_different_labels_are_different_groups(low, high, form):
    """Group by group the credit has the very bits that it has with labels 0 and 1."""
    labels = form([low, low, high, high])
    expected = token_credit(IDS, MASK, CORRECT, GROUPS)
    assert np.any(expected)
    np.testing.assert_array_equal(token_credit(IDS, MASK, CORRECT, labels), expected)


def test_the_table_has_the_labels_as_they_are():
    table = credit_table(IDS, MASK, CORRECT, [BIG, BIG, -BIG, -BIG])
    assert table.group.tolist() == [-BIG] * 3 + [BIG] * 3


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 1, "1", "1"], r"groups\[0\] is 1 and groups\[2\] is '1'; .* not both"),
        (["a", b"a", "a", "a"], r"groups\[0\] is 'a' and groups\[1\] is b'a'"),
        ([2, 2, True, True], r"groups\[2\] is True; expected integers or strings"),
        ([1, 1, None, 1], r"groups\[2\] is None; expected integers or strings"),
        ([1, 1, 1.5, 1], r"groups\[2\] is 1.5; expected integers or strings"),
        ([[1], [1], [2], [2]], r"groups is int64 of shape \(4, 1\)"),
        ([1, 2], r"groups is int64 of shape \(2,\)"),
    ],
)
def test_labels_that_are_no_labels(groups, message):
    with pytest.raises(InputError, match=message):
        token_credit(IDS, MASK, CORRECT, groups)
    if len(groups) == 4:
        with pytest.raises(InputError, match=message):
            token_advantages([1.0, 0, 0, 1], torch.tensor(IDS), MASK, groups)


@pytest.mark.parametrize("bad", [np.nan, -1, 0.5, np.inf, -np.inf, 1.5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_mask_that_is_none(bad, dtype):
    mask = MASK.astype(dtype)
    mask[2, 1] = bad
    for given in (mask, torch.tensor(mask)):
        with pytest.raises(InputError, match=rf"mask\[2, 1\] is {dtype(bad)}; expected 0 or 1"):
            token_credit(IDS, given, CORRECT, GROUPS)


def test_the_first_bad_entry_of_a_mask_is_named():
    mask = MASK.astype(np.int8)
    mask[1, 1], mask[3, 0] = -1, -2
    with pytest.raises(InputError, match=r"mask\[1, 1\] is -1; expected 0 or 1"):
        token_credit(IDS, mask, CORRECT, GROUPS)


def test_the_first_bad_entry_of_a_long_mask(monkeypatch):
    """It is looked at a few rows at a time."""
    monkeypatch.setattr("ktae.batch.CHECKED_AT_ONCE", 2)
    test_the_first_bad_entry_of_a_mask_is_named()


TENSORS = {
    "token_ids": torch.tensor(IDS),
    "mask": torch.tensor(MASK),
    "correct": torch.tensor(CORRECT),
    "groups": torch.tensor(GROUPS),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x.to_sparse(), "{name} is a sparse_coo tensor; expected a dense one"),
        (lambda x: x.to("meta"), "{name} is a meta tensor, which has no values"),
        (
            lambda x: torch.quantize_per_tensor(x.float(), 1.0, 0, torch.qint8),
            "{name} is a quantized tensor; expected",
        ),
    ],
    ids=["sparse", "meta", "quantized"],
)
def test_tensors_without_values_are_refused_by_name(name, make, message):
    given = TENSORS | {name: make(TENSORS[name])}
    ids, mask, correct, groups = given.values()
    calls = [
        lambda: token_credit(ids, mask, correct, groups),
        lambda: credit_table(ids, mask, correct, groups),
        lambda: token_advantages([1.0, 0, 0, 1], ids, mask, groups, correct=correct),
    ]
    for call in calls:
        with pytest.raises(InputError, match=message.format(name=name)):
            call()


def test_rewards_and_classes_without_values_are_refused_by_name():
    rewards = torch.ones(4).to_sparse()
    with pytest.raises(InputError, match="rewards is a sparse_coo tensor"):
        token_advantages(rewards, IDS, MASK, GROUPS)
    with pytest.raises(InputError, match="classes is a sparse_coo tensor"):
        class_credit(IDS, MASK, rewards, [0.0, 1.0], GROUPS)
