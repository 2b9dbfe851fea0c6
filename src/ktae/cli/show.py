"""`ktae show`: a group in the terminal."""

from __future__ import annotations

from pathlib import Path

from ktae.cli import options
from ktae.cli.printing import Screen
from ktae.cli.reading import Reading
from ktae.files import plots


def run(
    reading: Reading, group: str | None = None, step: int | None = None, output: Path | None = None
) -> None:
    """Show one group: every token coloured by its credit; in a pipe, credit stands beside it."""
    from ktae.report import group as groups

    asked = reading.asked()
    options.require_output(output, reading.paths, (".html", ".tex", *plots.KINDS))
    screen, dump = Screen(reading.as_json), reading.load()
    shown = groups.scored_group(dump, group, step, asked)
    if output is None:
        console = screen.console
        has_colours = console.color_system in ("256", "truecolor") and not console.no_color
        for text in groups.parts_of(shown, groups.TERMINAL if has_colours else None):
            console.print(text, soft_wrap=not has_colours)
    else:
        groups.save(shown, output)
        screen.print(f"wrote {output}")
    screen.end(groups.as_dict(shown) | {"notes": dump.notes.listed()})
