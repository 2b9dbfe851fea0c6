"""Tables in a page: what the modules that make them share.

A table stands between `<!-- table: NAME ... -->` and `<!-- end -->`, a difference in a sentence
between `<!-- difference: ... -->` and `<!-- end -->`; the text around them is written by hand.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ktae.inference import mean_interval

LAB = Path(__file__).resolve().parents[3]
"""The laboratory's folder in a checkout; elsewhere there are no results."""
RESULTS = LAB / "results"

Table = Callable[..., str]
"""Makes a table of the words after its name."""


def filled(page: str, tables: Mapping[str, Table], difference: Table) -> str:
    """The page with every table and every difference made anew.

    Raises:
        KeyError: there is no table of a name.
    """

    def table(match: re.Match[str]) -> str:
        name, *arguments = match["call"].split()
        return f"<!-- table: {match['call']} -->\n\n{tables[name](*arguments)}\n\n<!-- end -->"

    def inline(match: re.Match[str]) -> str:
        return (
            f"<!-- difference: {match['call']} -->{difference(*match['call'].split())}<!-- end -->"
        )

    page = re.sub(
        r"<!-- table: (?P<call>[^\n]*?) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL
    )
    return re.sub(r"<!-- difference: (?P<call>[^\n]*?) -->[^\n]*?<!-- end -->", inline, page)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def with_bounds(mean: float, low: float, high: float, digits: int = 3) -> str:
    """`+.012 (-.003 to +.027)`, with zeros."""
    return f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def mean_with_bounds(differences: np.ndarray, digits: int = 3) -> str:
    """Of (n,) paired differences, with the 95 % interval."""
    return with_bounds(*mean_interval(differences), digits)


def digits_of(outcome: str) -> int:
    """Lengths are tokens, everything else is of the order of 1."""
    return 1 if outcome == "length" else 3
