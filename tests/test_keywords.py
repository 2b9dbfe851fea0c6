"""What the public functions take as `credit`, `correct` and `groups`."""

import numpy as np

from ktae.credit import credit_table, token_advantages, token_credit

ARRAYS = ([[1, 2], [1, 3]], [[1, 1], [1, 1]], [1, 0], [0, 0])


def test_credit_names_the_estimator_in_all_of_them():
    ids, mask, correct, groups = ARRAYS
    named = token_credit(ids, mask, correct, groups, credit="calibrated")
    np.testing.assert_array_equal(named, token_credit(ids, mask, correct, groups, "calibrated"))
    added = token_advantages(correct, ids, mask, groups, credit="calibrated", base=[0, 0])
    np.testing.assert_array_equal(added, named)
    assert len(credit_table(ids, mask, correct, groups, credit="no-tf").credit) == 3


def test_an_estimator_in_a_file_is_named_by_text(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def ones(token_ids, mask, correct, groups):\n    return mask + 0.0\n")
    got = token_credit(*ARRAYS, f"{file}:ones")
    np.testing.assert_array_equal(got, np.ones((2, 2)))


def test_none_is_unknown_and_uuids_are_labels():
    import uuid

    ids, mask = [[1], [2], [3]], [[1]] * 3
    label = uuid.uuid4()
    got = token_credit(ids, mask, [True, False, None], [label] * 3, "paper")
    np.testing.assert_array_equal(got, token_credit(ids, mask, [1, 0, np.nan], [0] * 3, "paper"))
    assert got[0, 0] == 0.5 and got[2, 0] == 0
