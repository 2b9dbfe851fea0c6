"""Text that may reach a terminal."""

import pytest

from ktae.files.text import on_one_line, printable, visible


@pytest.mark.parametrize("sign", ["\n", "\r", "\x1b", "\x7f", "\x85", "\u202e", "\u2066", "\u2028"])
def test_what_does_not_print_is_escaped(sign):
    for escape in (on_one_line, printable):
        assert escape(f"a{sign}é") == f"a⟨{ord(sign):X}⟩é"


def test_no_two_texts_look_the_same():
    assert printable("⟨A⟩") == "⟨27E8⟩A⟨27E9⟩" != printable("\n") == on_one_line("⟨A⟩")
    assert visible(" \n\t␣") == "␣↵⇥⟨2423⟩"
