"""A group as a picture to take along: an .svg, .png or .pdf file, or one of HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from ktae.files import plots
from ktae.files.atomic import atomic_write
from ktae.files.text import printable
from ktae.report.terminal import ScoredGroup, shaded

COLUMNS, LINES = 96, 60
"""Characters of a line, and lines of a rollout; what is longer ends with a sign."""

PAPER, INK = "#ffffff", "#15181e"
FOR, AGAINST = (88, 170, 255), (255, 161, 77)
"""Red, green and blue of the full shade, as on the page."""


class Piece(NamedTuple):
    """Some characters of one line, with their background; None: none."""

    text: str
    colour: str | None


def lines_of(shown: ScoredGroup) -> Iterator[list[Piece]]:
    """The picture's lines: a heading, and each rollout below its own."""
    yield [Piece(shown.title(), None)]
    prompt = shown.columns.rollouts["prompt"][0].as_py() or ""
    for line in prompt.splitlines():
        yield from ([Piece(x, None)] for x in textwrap.wrap(printable(line), COLUMNS) or [""])
    full = [_style(share).removeprefix("on ") for share in (1, -1)]
    yield []
    yield [
        Piece(" for a right answer ", full[0]),
        Piece(" ", None),
        Piece(" against it ", full[1]),
        Piece(f"  {shown.name()}; the full shade is {shown.largest:.2f}", None),
    ]
    for row, verdict, span in shown.rollouts():
        yield []
        yield [Piece(shown.heading(row, verdict), None)]
        lines = shaded(shown, span, _style).wrap(_console(), COLUMNS, overflow="fold")
        for line in lines[:LINES]:
            yield _pieces(line)
        if len(lines) > LINES:
            yield [Piece(f"… {len(lines) - LINES:,} more lines", None)]


def save(shown: ScoredGroup, path: Path) -> None:
    """Write a group's picture, in the form that the file's name ends with.

    Raises:
        InputError: the file cannot be written.
    """
    lines = list(lines_of(shown))
    if path.suffix == ".html":
        with atomic_write(path) as temporary:
            temporary.write_text(_as_html(lines), encoding="utf-8")
    else:
        plots.save(_figure(lines), path)


def _style(share: float) -> str:
    """A background between the paper and the full shade; none for 0."""
    if share == 0:
        return ""
    strength = 0.12 + 0.88 * min(1.0, abs(share))
    full = FOR if share > 0 else AGAINST
    return "on #" + "".join(f"{round(255 + strength * (x - 255)):02x}" for x in full)


def _console() -> Any:
    from rich.console import Console

    return Console(width=COLUMNS)


def _pieces(line: Text) -> list[Piece]:
    """A line of rich as pieces of one background each."""
    pieces = []
    for segment in line.render(_console(), end=""):
        colour = segment.style and segment.style.bgcolor
        pieces.append(Piece(segment.text, colour.name if colour else None))
    return pieces


def _as_html(lines: list[list[Piece]]) -> str:
    def span(piece: Piece) -> str:
        text = html.escape(piece.text)
        return f'<span style="background:{piece.colour}">{text}</span>' if piece.colour else text

    body = "\n".join("".join(map(span, line)) for line in lines)
    return (
        f'<!doctype html>\n<meta charset="utf-8">\n<pre style="background:{PAPER};color:{INK};'
        f'padding:1rem;font:14px/1.5 monospace">{body}</pre>\n'
    )


def _figure(lines: list[list[Piece]]) -> Any:
    """By matplotlib: a grid of characters."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    width, height = COLUMNS * 0.085 + 0.4, len(lines) * 0.19 + 0.4  # inches
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.add_axes((0.2 / width, 0.2 / height, 1 - 0.4 / width, 1 - 0.4 / height))
    axes.set(xlim=(0, COLUMNS), ylim=(len(lines), 0))
    axes.axis("off")
    font: dict[str, Any] = {"family": "monospace", "size": 10.15, "color": INK, "parse_math": False}
    for y, line in enumerate(lines):
        x = 0
        for text, colour in line:
            if colour:
                axes.add_patch(Rectangle((x, y + 0.05), len(text), 0.9, color=colour, lw=0))
            axes.text(x, y + 0.75, text, **font)
            x += len(text)
    return figure
