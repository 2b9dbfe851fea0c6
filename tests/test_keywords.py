"""A keyword that a public function does not have is an error that names the nearest one."""

import numpy as np
import pytest

import ktae
from ktae.credit import credit_table, token_advantages, token_credit

ARRAYS = ([[1, 2], [1, 3]], [[1, 1], [1, 1]], [1, 0], [0, 0])


@pytest.mark.parametrize(
    ("function", "wrong", "meant"),
    [
        (token_advantages, {"corect": [1, 0]}, "correct"),
        (token_advantages, {"credits": "trigrams"}, "credit"),
        (token_credit, {"credits": "trigrams"}, "credit"),
        (credit_table, {"credits": "trigrams"}, "credit"),
        (ktae.score, {"treshold": 0.5}, "threshold"),
    ],
)
def test_the_nearest_keyword_is_named(function, wrong, meant):
    with pytest.raises(TypeError) as error:
        function(*ARRAYS[: 1 if function is ktae.score else None], **wrong)
    assert next(iter(wrong)) in str(error.value) and repr(meant) in str(error.value)


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
