"""Which part of a rollout is looked at."""

import numpy as np
import pyarrow as pa
import pytest

from ktae.rollouts import record
from ktae.validity import prefixes


def make_rollouts(responses):
    """Each character is a token of its own."""
    rows = [
        {"group": "g", "token_ids": list(text.encode()), "response": text, "reward": 0.0}
        for text in responses
    ]
    return record.conform(pa.Table.from_pylist(rows, schema=record.SCHEMA))


BYTES = [bytes([i]) for i in range(128)]


def before_answer(rollouts):
    answers = prefixes.stated_answers(rollouts)
    return prefixes.before_answer(rollouts, np.arange(128), BYTES, answers)


@pytest.mark.parametrize(
    ("response", "before"),
    [
        (r"so x = 42 and \boxed{42}", "so x = "),
        (r"142 is not it, 42.5 neither; \boxed{42}", r"142 is not it, 42.5 neither; \boxed{"),
        ("", ""),
    ],
)
def test_what_stands_before_the_answer(response, before):
    rollouts = make_rollouts([response, r"\boxed{1}"])
    found = before_answer(rollouts)
    assert response[: found.keep[0]] == before


def test_responses_without_an_answer_are_cut_as_those_with_one():
    texts = ["x" * 12 + r"\boxed{7}", r"xx \boxed{7}", "x" * 17 + r"\boxed{7}", "y" * 40]
    found = before_answer(make_rollouts(texts))
    assert found.unanswered == 1
    assert found.share == np.median([19 / 21, 10 / 12, 24 / 26])
    assert found.keep[3] == np.ceil(40 * found.share)


def test_own_answers():
    rollouts = make_rollouts([r"\boxed{4 2}", "no", "80 - (3 + 7) = 70", r"\boxed{x = 7}"])
    assert prefixes.stated_answers(rollouts) == ["4 2", None, "70", "x = 7"]
    assert list(prefixes.AskedAnswers(rollouts)) == ["42", None, "70", "7"]


def test_last_numbers_where_few_responses_state_an_answer():
    rollouts = make_rollouts(
        ["12 and 33 make 45<|im_end|>", "Add 12 to get 45", "no", "The answer is 4 5."]
    )
    assert list(prefixes.AskedAnswers(rollouts)) == ["45", "45", None, "45"]
    assert prefixes.stated_answers(rollouts) == [None, None, None, "4 5"]
