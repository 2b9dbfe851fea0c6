"""Which of a sentence's numbers or formulas is its answer."""

import pytest

from ktae.grading.statements import answer_in, last_number

SENTENCES = [
    ("45 miles after 4 hours", "45"),
    ("The distance is 45 miles after 4 hours", "45"),
    ("$45$ miles after $4$ hours", "45"),
    (r"\(45\) miles after \(4\) hours", "45"),
    ("12 - 4, which is 8 because 4 are left", "8"),
    ("The perimeter is 4 * 13 = 52 units", "52"),
    ("If the radius is 3, the area is 9", "9"),
    ("3 boys and 4 girls, a total of 7", "7"),
    ("12 minus 4 and so on, 8", "8"),
    ("the larger one of 5 and 7", "7"),
    ("$x$ is in $[1,2]$", "[1,2]"),
    ("$n = 4$ gives $16$", "16"),
    (r"3\sqrt{5} + \sqrt{15} + 5", "5"),
    ("The meeting was on 01/31/2011", "01/31/2011"),
    ("We meet at 12:30 pm", "12:30 pm"),
    ("小明有18个苹果", "18"),
    ("42, not 24", "42"),
    ("rain, not snow", "rain, not snow"),
    ("2, 3, not 5", "2, 3, not 5"),
    ("The sum is 42, rather than 24", "42"),
    ("The sum is 2 1/2", "2 1/2"),
    ("A because B is wrong", "A"),
    ("A, since 3 is wrong", "A"),
    ("the sum, since 3 + 4 = 7, is 7", "7"),
    ("approximately 3.14", "3.14"),
    ("about **12**", "12"),
    ("5 (not 4)", "5"),
    ("p and (not q)", "p and (not q)"),
    ("A (not B)", "A"),
    ("20 (since 4*5=20)", "20"),
    ("42 (rounded)", "42"),
    ("3 (rounded down) + 4 = 7", "7"),
    ("42 ✓", "42"),
    ("12 (base 8)", "12 (base 8)"),
    ("(C) $12$ because it is the largest", "(C) 12"),
    ("A. This is because 5 is odd", "A. 5"),
    ("The value of $2+3$ is 6", "6"),
    ("The value of $x$ is 5", "5"),
    ("The area of triangle $ABC$ is 12 square units", "12"),
    ("$5 + $3 = $8", "$8"),
    ("40 hours x $10/hour + 5 hours x $12/hour = $460", "$460"),
    ("The roots are 5 and 6", "5, 6"),
    ("It is either 5 or 6", "5, 6"),
    ("between 5 and 6", "between 5 and 6"),
    ("greater than 0", "greater than 0"),
    ("18 apples", "18 apples"),
    ("Evelyn", "Evelyn"),
    ("no number in these words", "no number in these words"),
]


@pytest.mark.parametrize(("sentence", "answer"), SENTENCES)
def test_answer_in_a_sentence(sentence: str, answer: str) -> None:
    assert answer_in(sentence) == answer
    assert answer_in(f" **{sentence}**. ") == answer


FORMULAS = [
    ("$a$ or $b$", "a, b"),
    ("$$a$$", "a"),
    (r"\[ a \]", r"\[ a \]"),  # no words beside it: all of it
    (r"so \(a\), and $b", "a"),
    (r"$a \(b\) c$", r"a \(b\) c"),
    (r"\(a $b$ c\)", "a $b$ c"),
    (r"\( $ a \) b $ c", "$ a"),
    (r"\( a \( b \)", "b"),
    (r"\\(a\\) \(b\)", "b"),
    (r"\(a\) \( \)", "a"),
]


@pytest.mark.parametrize(("statement", "answer"), FORMULAS)
def test_the_last_formula(statement: str, answer: str) -> None:
    assert answer_in(statement) == answer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 and 1,234.5 x", "1,234.5"),
        ("x2 y3", ""),
        ("5.", "5"),
        ("-1/2", "-1/2"),
        ("on 2011-01-31", "2011-01-31"),
        ("有18个", "18"),
        ("", ""),
    ],
)
def test_last_number(text: str, number: str) -> None:
    assert last_number(text) == number
