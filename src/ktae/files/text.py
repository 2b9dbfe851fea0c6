"""Text of models and files: what is none, and how it is made safe to look at in a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ktae.errors import InputError

BLANKS = {" ": "␣", "\n": "↵", "\t": "⇥"}
HUGE = 1e9


def require_text(text: str, where: str) -> str:
    """`text`, unless it holds half a surrogate pair, which JSON can spell and nothing can write."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise InputError(f"{where} holds {half!r}, half a surrogate pair; not a text") from None
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
    """What may reach a terminal: whatever does not print is escaped, as ⟨1B⟩ for U+001B.

    That is every newline, control and bidirectional character, so no text of a file looks like a
    line of ours. What is escaped already stays as it is.
    """
    return "".join(x if x.isprintable() else _escaped(x) for x in text)


def printable(text: str) -> str:
    """`on_one_line`, with the brackets ⟨⟩ escaped as well, so that no two texts look the same.

    Backslashes are left as they are, since mathematics is full of them.
    """
    return on_one_line("".join(_escaped(x) if x in "⟨⟩" else x for x in text))


def visible(text: str) -> str:
    """`printable`, with blanks as symbols: ␣ is a space, ↵ a newline, ⇥ a tab."""
    symbols = {x: _escaped(x) for x in ("⟨", "⟩", *BLANKS.values())} | BLANKS
    return on_one_line("".join(symbols.get(x, x) for x in text))


def _escaped(character: str) -> str:
    return f"⟨{ord(character):X}⟩"


def counted(n: int, what: str) -> str:
    """As in "1 group" and "2,000 groups"."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def number(value: float, form: str) -> str:
    """A number in a form that ends in its digits, such as "+z.4f"; of a huge one three digits."""
    return format(value, form) if abs(value) < HUGE else format(value, form[:-2] + "3g")


def columns_of_text(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
