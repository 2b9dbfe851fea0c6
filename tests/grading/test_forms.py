"""What an answer is: its normal form."""

import pytest

from ktae.grading.forms import key, read

FORMS = [
    ("12,345", "number", "12345", "", ""),
    (r"12\text{ cm}^2", "number", "12", r"\text{cm}^2", ""),
    ("5t", "expression", "5t", "", ""),
    (r"5 \text{ or } 6", "list", r"5 \text{or} 6", "", ""),
    ("x = 5", "number", "5", "", "x"),
    ("xy = 5", "relation", "xy = 5", "", ""),
    ("f(2) = 2+1 = 3", "number", "3", "", "f(2)"),
    (r"x \in [1, 2)", "tuple or interval", "[1, 2)", "", ""),
    ("[2,5[", "tuple or interval", "[2,5)", "", ""),
    (r"\{1, 2\}", "set", r"\{1, 2\}", "", ""),
    ("1, 2", "list", "1, 2", "", ""),
    ("1<x<2", "relation", "1<x<2", "", ""),
    (r"(0,1) \cup (2,3)", "union", r"(0,1) \cup (2,3)", "", ""),
    (r"\textbf{(C) } 12", "choice", "C", "", ""),
    (r"\text{Evelyn}", "words", "evelyn", "", ""),
    ("1011_2", "digits", "1011", "", ""),
    ("12:30", "digits", "12:30", "", ""),
    (r"2n, n \in \mathbb{Z}", "expression", "2n", "", ""),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", "tuple or interval", "(1, 2)", "", ""),
]


@pytest.mark.parametrize(("answer", "kind", "body", "unit", "name"), FORMS)
def test_read(answer: str, kind: str, body: str, unit: str, name: str) -> None:
    form = read(answer)
    assert (form.kind, form.body, form.unit, form.name) == (kind, body, unit, name)


def test_votes_are_counted_by_what_an_answer_is() -> None:
    assert {key(text) for text in ("7", "7.0", r"\frac{14}{2}", "x = 7", "7 apples")} == {"7"}
    assert key("96 + 60 = 156") == "156"
    assert key("1, 2") == key("1,2") != key("12")
