"""Text of models and files: what is none, and how it is made safe to look at in a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ktae.errors import InputError


def require_text(text: str, where: str) -> str:
    """`text`, unless it holds half a surrogate pair, which JSON can spell and nothing can write."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where} is no text: {error}") from None
    return text


def path_text(path: str | Path) -> str:
    r"""A path as text; bytes of its name that are not UTF-8 are escaped, as in `caf\xe9.jsonl`."""
    return os.fsencode(path).decode(errors="backslashreplace")


def short_names(paths: Sequence[Path]) -> list[str]:
    """The ends of paths, with as few of their parts as tell different ones apart."""
    n = 1
    while len({path.parts[-n:] for path in paths}) < len(set(paths)):
        n += 1
    return [path_text(Path(*path.parts[-n:])) for path in paths]


def on_one_line(text: str) -> str:
    """What may reach a terminal: whatever does not print, newlines too, is escaped as ⟨1B⟩."""
    return "".join(x if x.isprintable() else _escaped(x) for x in text)


def printable(text: str) -> str:
    """`on_one_line`, with the brackets ⟨⟩ escaped as well, so that no two texts look the same."""
    return on_one_line("".join(_escaped(x) if x in "⟨⟩" else x for x in text))


def visible(text: str) -> str:
    """`printable`, with blanks as symbols: ␣ is a space, ↵ a newline, ⇥ a tab."""
    symbols = {x: _escaped(x) for x in "⟨⟩␣↵⇥"} | {" ": "␣", "\n": "↵", "\t": "⇥"}
    return on_one_line("".join(symbols.get(x, x) for x in text))


def _escaped(character: str) -> str:
    return f"⟨{ord(character):X}⟩"


def counted(n: int, what: str) -> str:
    """As in "1 group" and "2,000 groups"."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def number(value: float, form: str) -> str:
    """A number in a form that ends in its digits, such as "+z.4f"; of a huge one three digits."""
    return format(value, form) if abs(value) < 1e9 else format(value, form[:-2] + "3g")
