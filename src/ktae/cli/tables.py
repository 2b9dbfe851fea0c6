"""How tables look in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def make_table(heading: str, columns: Sequence[str], *, first: str = "") -> Table:
    """An empty table that fits 80 characters: one column of names, the others of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=heading,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        min_width=len(heading),  # which rich would wrap
    )
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
