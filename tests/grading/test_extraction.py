"""Where the answer is looked for."""

import pytest

from ktae.grading.extract import extract

BOXES = [
    (r"\boxed{1} then \boxed{2}", "2"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed {5}", "5"),
    (r"\fbox{5}", "5"),
    (r"\boxed 5.", "5"),
    (r"\boxed{3} and \boxed{4", "3"),  # the end cut it off
    (r"\boxed{3", None),
    (r"\boxed{}", None),
    (r"put it within \boxed{}. \boxed{7}", "7"),
    (r"\boxed{7} as asked, in \boxed{}", "7"),
    (r"\boxed{\text{a } \boxed{3}}", r"\text{a } {3}"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed{\left\{x\right.}", r"\left\{x\right."),
    (r"f = { x \boxed{5}", "5"),
    (r"} } \boxed{5}}", "5"),
    ("no box", None),
    ("", None),
]


@pytest.mark.parametrize(("response", "expected"), BOXES)
def test_last_box(response: str, expected: str | None) -> None:
    assert extract(response, "none") == (expected and (expected, "boxed"))


STATED = [
    ("<answer> 12 </answer>", "12", "tag"),
    ("<answer>x < 5</answer>", "x < 5", "tag"),
    ("<answer>1</answer> no, <answer>open <answer>2</answer>", "2", "tag"),
    ("so 6 * 7 = 42\n#### 42", "42", "hashes"),
    ("#### Step 1:\nsome work", None, None),
    ('{"reasoning": "...", "answer": "-35"}', "-35", "json"),
    ('{"answer": 17, "confidence": 1}', "17", "json"),
    (r'{"answer": "\\frac{1}{2}"}', r"\frac{1}{2}", "json"),
    (r'{"answer": "\dfrac{1}{2}"}', r"\dfrac{1}{2}", "json"),
    ('{"answer": "The perimeter is 4 * 13 = 52 units."}', "52", "json"),
    ("so the answer is $\\boxed{4", None, None),
    ("Answer: $\\boxed{\\frac{1}{2}", None, None),
    ("The total is $7$. \\boxed{", None, None),
    ("Answer: 4\nso \\boxed{4", "4", "stated"),
    ("Answer: 4\nso \\boxed{4\n \n\n", "4", "stated"),
    ("\\boxed{4\n\t\n \nAnswer: 5", "5", "stated"),
    ("<answer>{4}</answer> and \\boxed{", "{4}", "tag"),
    ("<think>I need \\boxed{ here</think><answer>42</answer>", "42", "tag"),
    ("I will not write \\boxed{ yet.\n\n#### 42", "42", "hashes"),
    ("In \\boxed{} or \\boxed{\n\nAnswer: 42", "42", "stated"),
    ("Answer: 4\n\nso \\boxed{\\frac{1}{2", "4", "stated"),
    ("**Answer:** 36", "36", "stated"),
    ("**ANSWER: 3159**", "3159", "stated"),
    ("ANSWER: 1,625 square centimeters of paper", "1,625", "stated"),
    ("**Answer:** The original price of the shoes is $50.", "$50", "stated"),
    (r"Answer: \( |z|^2 = 50 \)", "|z|^2 = 50", "stated"),
    ("## Final Answer:\n\n7", "7", "stated"),
    ("A: 18", "18", "stated"),
    ("A: 12\nB: 15\nC: 18\nThe largest is 18, so the answer is B.", "B", "stated"),
    ("16 - 7 = 9, 2 * 9 = 18\nA: 18\n", "18", "stated"),
    ("The answer is `18`.", "18", "stated"),
    ("The choices:\nA: 12\nB: 15\na: 5", None, None),
    ("The answer is:\n\\[\n12\n\\]", "12", "stated"),
    ("Answer: ```42```", "42", "stated"),
    ("Answer:\n```text\n42\n```", "42", "stated"),
    ("Answer: $$3+4$$ so it is $$7$$", "7", "stated"),
    ("**Answer:**\n\n$$\n42\n$$\nso it is.", "42", "stated"),
    ("The final answer is\n```text\n42\n```", "42", "stated"),
    ("Answer: \\[ x =\n5 \\]", "x = 5", "stated"),
    ("Answer:\n\\[\\frac{1}{2} + \\sqrt{3}\\]", r"\frac{1}{2} + \sqrt{3}", "stated"),
    (
        "Answer:\n\\[\n\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}\n\\]",
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        "stated",
    ),
    ("Answer:\n\\begin{align*}\nx &= 3+9 \\\\\n&= 12\n\\end{align*}", "12", "stated"),
    ("Answer:\n\\[\\begin{aligned} x &= 12 \\\\ \\end{aligned}\\]", "x = 12", "stated"),
    ("The answer is:\n\\[\n1", None, None),  # the end cut it off
    ("Which answer is correct? The answer is A because B is wrong.", "A", "stated"),
    ("Answer: 12\nCheck: 3*4 = 12, so the answer is correct.", "12", "stated"),
    ("Is it so? The answer is right.", "right", "stated"),
    ("They say the answer is 12.\nAnswer: Correct", "Correct", "stated"),
    ("Answer: Let's add.\n3*4 = 12, 12+5 = 17.\nThe answer is 17.", "17", "stated"),
    ("First the answer is 4.\nAnswer: 5", "5", "stated"),
    ("Answer: 5\nI hope the answer is", "5", "stated"),
    ("First I said the answer is 4. After checking, the answer is 5.", "5", "stated"),
    ("Therefore the answer is $\\frac{n}{2}$.", r"\frac{n}{2}", "stated"),
    ("The final answer to the question is 12.", "12", "stated"),
    ("Answer: Evelyn", "Evelyn", "stated"),
    ("I first thought that the answer is 5. " + "But no, wait. " * 40, None, None),
    ("and so we get 5 and 6", None, None),
    ("The answer is 45 miles after 4 hours.", "45", "stated"),
    ("La respuesta es 18.", "18", "stated"),
    ("Respuesta final: 18", "18", "stated"),
    ("La réponse est 18.", "18", "stated"),
    ("Die Antwort lautet 18 Euro.", "18 Euro", "stated"),
    ("A resposta correta é 18.", "18", "stated"),
    ("La risposta è 18.", "18", "stated"),
    ("Ответ: 18 рублей", "18 рублей", "stated"),
    ("Итак, ответ равен 18.", "18", "stated"),
    ("所以答案是 18", "18", "stated"),
    ("最终答案为 \\(18\\)。", "18", "stated"),
    ("答え：18個", "18個", "stated"),
    ("答えは18です。", "18です", "stated"),
    ("정답은 18입니다.", "18입니다", "stated"),
    ("The date is 01/31/2011.", "01/31/2011", "closing"),
    ("Then the total is 5 apples.", "5 apples", "closing"),
    ("The probability is $\\frac{1}{2}$.\n", r"\frac{1}{2}", "closing"),
    ("and so\n\n**42**", "42", "closing"),
    ("so she has __42__.", "42", "closing"),
    ("so that is 5", None, None),  # may have been cut off
    ("1 is 5. Then", None, None),
    ("**Step 2: Factor**", None, None),
    ("the answer is", None, None),
    ("Answer:", None, None),
]


@pytest.mark.parametrize(("response", "text", "rule"), STATED)
def test_without_a_box(response: str, text: str | None, rule: str | None) -> None:
    assert extract(response) == (None if text is None else (text, rule))
    assert extract(response, "none") is None


WHERE = [
    # A box comes before everything but a label that begins a line below it.
    ("Answer: 6\n<answer>8</answer>\\boxed{5}\n#### 7", "5"),
    ("\\boxed{H \\ll E}\n\n**Answer: D**", "D"),
    ("\\boxed{5}\n```python\nanswer = a + b\n```", "5"),
    # Boxes that are one list.
    (r"\boxed{1}, \boxed{2}, \boxed{3}", "1, 2, 3"),
    (r"$x = \boxed{1}$ and $y = \boxed{2}$.", "x =1, y =2"),
    (r"either \(\boxed{7}\) or \(\boxed{9}\)", "7, 9"),
    (r"\boxed{7}\quad\text{and}\quad\boxed{9}", "7, 9"),
    (r"\boxed{7}, \boxed{7}", "7"),
    (r"\boxed{7}. Then \boxed{9}", "9"),
    (r"\boxed{7} \boxed{9}", "9"),
    # What a thought says is not said; where nothing else is, the box of one that has ended counts.
    ("<think>\\boxed{3}</think>The answer is 7.", "7"),
    ("<think>The answer is 3.</think>So", None),
    ("Let me see: \\boxed{3}</think>\n", "3"),
    ("<think>\\boxed{3}</think><think>or \\boxed{4}", None),
    ("<think>Is it \\boxed{3}? Wait,", None),
    ("<think>hm <answer>5</answer>", "5"),
    # The turn ends with the first token that follows text.
    ("\\boxed{18}<|im_end|>\n<|im_start|>user\n\\boxed{10}", "18"),
    ("<|im_start|>assistant\n\\boxed{18}<|im_end|>", "18"),
    ("The answer is 18.<|endoftext|>Human: \\boxed{10}", "18"),
    ("#### 18\n\n## Question:\nWhat? #### 10", "18"),
    # Headings and labels.
    ("### Final Answer\n73", "73"),
    ("**Final Answer**\n\n\\[\n73\n\\]", "73"),
    ("✅ Final answer = 73", "73"),
    ("Ans: 73", "73"),
    ("The correct option is C.", "C"),
    ("故选：C", "C"),
    ("Đáp án: 73", "73"),
    ("Svar: 73", "73"),
    ("Answer:\n- 12", "12"),
    ("Answer: -12", "-12"),
    (r"\boxed{\text{The answer is } 18}", "18"),
    # Nothing but the answer.
    ("42", "42"),
    ("$42$", "42"),
    ("(1, 2)", "(1, 2)"),
    ("C", "C"),
    ("x = 5", "x = 5"),
    # Closing sentences and formulas.
    ("The polygon has 15 sides.", "15 sides"),
    ("The angle measures 120 degrees.", "120 degrees"),
    ("The value is $-\\frac{\\pi}{6}$ radians.", r"-\frac{\pi}{6}"),
    ("The total is 72 clips, altogether.", "72 clips"),
    ("So, the solution is $x = 6$.\n♨", "x = 6"),
    ("So\n$$\nx = 73\n$$", "x = 73"),
    ("First compute 6*7.\n42", None),  # may have been cut off
]


@pytest.mark.parametrize(("response", "text"), WHERE)
def test_which_part_is_the_answer(response: str, text: str | None) -> None:
    extracted = extract(response)
    assert (extracted and extracted.text) == text


def test_the_last_number_only_where_asked_for() -> None:
    assert extract("and so we get 5 and 1,234.5") is None
    assert extract("and so we get 5 and 1,234.5 x", "last") == ("1,234.5", "last")
    assert extract("nothing at all", "last") is None


@pytest.mark.parametrize("end", ["<|im_end|>", "</s>\n", "<｜end▁of▁sentence｜>", "<pad>" * 500])
@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("So 42.\n#### 42", "42"),
        ("The answer is 42.", "42"),
        ("Therefore x = 42.", "42"),
        ("Well, **42**", "42"),
        ("Answer: <|x|> 7", "<|x|> 7"),
    ],
)
def test_special_tokens_at_the_end(response: str, text: str, end: str) -> None:
    found = extract(response + end)
    assert found is not None and found.text == text
