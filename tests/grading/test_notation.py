"""Dates, clock times and ratios: what is the same one."""

import pytest

from ktae.grading.notation import agree, is_written

SAME = [
    ("01/31/2011", "1/31/2011"),
    ("01/31/2011", "31/01/2011"),
    ("01/31/2011", "2011-01-31"),
    ("01/31/2011", "31.1.2011"),
    ("02/04/2011", "2/4/2011"),
    ("01/31/11", "1/31/11"),
    ("12:30", "12:30"),
    ("9:30", "09:30"),
    ("3:00 PM", r"3:00 \text{ p.m.}"),
    ("3 PM", "15:00"),
    ("3:00 PM", "3:00"),
    ("0:30", "12:30 am"),
    ("1:20:30", "01:20:30"),
    ("2:4", "1:2"),
    ("4:10", "2:5"),
    ("2:3", "10:15"),
    ("100:300", "50:150"),
    ("1:2:3", "2 : 4 : 6"),
    ("1.5:2", "3:4"),
    (r"1\colon 2", "2:4"),
    ("0:1", "0:5"),
]
OTHER = [
    ("02/04/2011", "01/02/2011"),
    ("02/04/2011", "04/02/2011"),
    ("2011-02-01", "2008"),
    ("01/31/2011", "01/31/2012"),
    ("12:30", "24:60"),
    ("12:30", "2/5"),
    ("3:00 PM", "3:00 AM"),
    ("15:00", "3:00 AM"),
    ("9:05", "18:10"),
    ("1:2", "2:1"),
    ("1:2:3", "1:2"),
    ("1:2:3", "1:2:4"),
    ("0:1", "1:0"),
]
NO_MATTER_OF_THIS = [
    ("1/2", "2/4"),
    ("1:2", r"\frac{1}{2}"),
    ("3:1", "3"),
    ("45/99/2011", "5/11/2011 x"),
    ("5", "6"),
    ("x:y", "a:b"),
    ("(1:2", "1:2)"),
    ("", "1:2"),
]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        *((*pair, True) for pair in SAME),
        *((*pair, False) for pair in OTHER),
        *((*pair, None) for pair in NO_MATTER_OF_THIS),
    ],
)
def test_agree_whichever_is_accepted(a: str, b: str, expected: bool | None) -> None:
    assert agree(a, b) is agree(b, a) is expected


@pytest.mark.parametrize(
    ("text", "expected"), [("01/31/2011", True), ("3 pm", True), ("1:2", True), ("1/2", False)]
)
def test_is_written(text: str, expected: bool) -> None:
    assert is_written(text) is expected
