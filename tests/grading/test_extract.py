"""Conventions by position: where a response states its answer, as a matrix that can be read."""

import pytest

from ktae.grading.extract import Extracted, extract

# Each convention around V, and the rule that finds it.
CONVENTIONS = {
    r"\boxed{V}": "boxed",
    "<answer>V</answer>": "tag",
    "#### V": "hashes",
    '{"answer": "V"}': "json",
    "Answer: V": "label",
    "**Final Answer:** V": "label",
    "The answer is V.": "label",
    "Respuesta: V": "label",
    "答案是V。": "label",
}
# Each position of a convention C in a response.
POSITIONS = {
    "all of it": "C",
    "own line": "We add the numbers.\nC",
    "end of a line": "We add the numbers. C",
    "mid-line": "We add. C So we are done.",
    "below a box": "First \\boxed{41}.\n\nC",
    "below a thought": "<think>Is it \\boxed{41}?</think>C",
    "before the end token": "C<|im_end|>\n<|im_start|>user\nAnswer: 41",
}
VALUES = {"bare": "42", "with a unit": "42 km", "in bold": "**42**", "formula": "$42$"}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_at_every_position(convention: str, position: str, value: str) -> None:
    response = POSITIONS[position].replace("C", convention.replace("V", value), 1)
    extracted = extract(response)
    assert extracted is not None, response
    assert extracted.rule == CONVENTIONS[convention]
    assert extracted.text.strip("*$") in ("42", "42 km")


LEFT_OPEN = ["41 or 42", "maybe 42", "at least 42", "42 if n is odd", "between 41 and 42", "not 42"]
AROUND = ["Answer: {}", "The answer is {}.", "<answer>{}</answer>", "So it is {}."]


@pytest.mark.parametrize("hedge", LEFT_OPEN)
@pytest.mark.parametrize("around", AROUND)
def test_two_candidates_and_doubts_are_no_answer(around: str, hedge: str) -> None:
    extracted = extract(around.format(hedge))
    assert extracted is None or extracted.text == hedge  # as a list it is compared as one


def test_only_as_far_as_asked_for() -> None:
    assert extract("The answer is 5.", "none") is None
    assert extract("and so we get 5 and 1,234.5") is None
    assert extract("and so we get 5 and 1,234.5 x", "last") == Extracted("1,234.5", "last")
    assert extract("") is None
