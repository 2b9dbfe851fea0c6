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


UNCLOSED = {
    r"\boxed{42": None,
    "<answer>42": "42",
    '{"answer": "42': None,
    "Answer: $\\boxed{42": None,
    "The answer is:\n\\[\n42": None,
    "so the answer is": None,
}


@pytest.mark.parametrize("response", UNCLOSED)
def test_what_the_end_cuts_off(response: str) -> None:
    extracted = extract(response)
    assert (extracted and extracted.text) == UNCLOSED[response]


LEFT_OPEN = [
    "41 or 42",
    "maybe 42",
    "at least 42",
    "42 if n is even",
    "between 41 and 42",
    "not 42",
]


AROUND = ["Answer: {}", "The answer is {}.", "<answer>{}</answer>", "So it is {}."]


@pytest.mark.parametrize("hedge", LEFT_OPEN)
@pytest.mark.parametrize("around", AROUND)
def test_two_candidates_and_doubts_are_no_answer(around: str, hedge: str) -> None:
    extracted = extract(around.format(hedge))
    assert extracted is None or extracted.text == hedge  # as a list it is compared as one


LAST = [
    # The last convention counts.
    ("Answer: 6\n<answer>8</answer> \\boxed{5}\n#### 7", "7"),
    ("<answer>1</answer> no, <answer>2</answer>", "2"),
    ("The area is \\boxed{58} square cm. The answer is B.", "B"),
    ("\\boxed{12}\nFINAL ANSWER:\n<answer>\n13\n</answer>", "13"),
    ("First I said the answer is 4. The answer is 5.", "5"),
    # What only judges does not.
    ("\\boxed{58}. The answer is correct.", "58"),
    ("Answer: 12\nCheck: 3*4 = 12, so the answer is correct.", "12"),
    # Boxes.
    (r"\boxed{1} then \boxed{2}", "2"),
    (r"\boxed{1}, \boxed{2}, \boxed{3}", "1, 2, 3"),
    (r"\boxed{7}\quad\text{and}\quad\boxed{9}", "7, 9"),
    (r"\boxed{7}, \boxed{7}", "7"),
    (r"\boxed{7} \boxed{9}", "9"),
    (r"\boxed{\text{a } \boxed{3}}", r"\text{a } {3}"),
    (r"\fbox{5}", "5"),
    (r"\boxed 5.", "5"),
    (r"} } \boxed{5}}", "5"),
    (r"put it within \boxed{}. \boxed{7}", "7"),
    (r"It is not \boxed{5}.", None),
    (r"It is \boxed{5} or 6.", None),
    # Labels.
    ("### Final Answer\n73", "73"),
    ("**Final Answer**\n\n\\[\n73\n\\]", "73"),
    ("**Final Answer**\n5 - y", "5 - y"),
    ("### Final Answer\n$m - 2$", "m - 2"),
    ("Answer:\n- 12", "12"),
    ("Answer: -12", "-12"),
    ("Answer: ```42```", "42"),
    ("Answer: Kim pays $12 more than Lee.", "$12"),
    ("Answer: 3, \\frac{-5 + 4\\sqrt{2}}{7}", "3, \\frac{-5 + 4\\sqrt{2}}{7}"),
    ("Answer: The area of triangle $ABC$ is 12 square units.", "12"),
    ("The answer is CHF4,000 per unit.", "CHF4,000"),
    ("The answer is (b) $\\phi^2$", "(b) \\phi^2"),
    ("The answer is 12 because 3*4 = 12.", "12"),
    ("So the answer is **36** ways.", "36 ways"),
    ("Thus, 36 is the answer.", "36"),
    ("Option D is correct.", "D"),
    ("故选B.", "B"),
    ("A: 12\nB: 15\nThe answer is B.", "B"),
    ("16 - 7 = 9, 2 * 9 = 18\nA: 18\n", "18"),
    ("Answer: Evelyn", "Evelyn"),
    ("I first thought that the answer is 5. " + "But no, wait. " * 40, None),
    ("I am not sure the answer is 8.", None),
    ("answer = a + b", None),
    # The last line.
    ("First compute 6*7.\n42", "42"),
    ("So\n$$\nx = 73\n$$", "x = 73"),
    ("So she makes 9 * 2 = <<9*2=18>>18 dollars. ", "18"),
    ("So the train travels at 80 km/h.", "80"),
    ("The value of $\\arcsin(-1)$ is $-\\frac{\\pi}{2}$ radians.", "-\\frac{\\pi}{2}"),
    ("Her total is 19, and her brother has 8.", None),
    ("The maximum is therefore 36, achieved when x=2.", None),
    ("If x = 42 then it works.", None),
    ("**Step 2: Factor**", None),
    ("so that is 5", None),  # may have been cut off
    ("no answer at all", None),
    ("", None),
    # Thoughts.
    ("<think>The answer is 3.</think>So", None),
    ("Let me see: \\boxed{3}</think>\n", "3"),
    ("<think>Is it \\boxed{3}? Wait,", None),
    ("<think>hm <answer>5</answer>", "5"),
]


@pytest.mark.parametrize(("response", "text"), LAST)
def test_which_part_is_the_answer(response: str, text: str | None) -> None:
    extracted = extract(response)
    assert (extracted and extracted.text) == text


def test_only_as_far_as_asked_for() -> None:
    assert extract("The answer is 5.", "none") is None
    assert extract("and so we get 5 and 1,234.5") is None
    assert extract("and so we get 5 and 1,234.5 x", "last") == Extracted("1,234.5", "last")
    assert extract("nothing at all", "last") is None
