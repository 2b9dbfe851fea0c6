"""Tables in a page: what the scripts that make them share.

A table stands between `<!-- table: NAME ... -->` and `<!-- end -->`, a difference in a sentence
between `<!-- difference: ... -->` and `<!-- end -->`; the text around them is written by hand.
"""

import csv
import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ktae.study.statistics import mean_interval

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
STUDIES = ROOT / "study" / "results"


def filled(
    page: str,
    tables: Mapping[str, Callable[..., str]],
    difference: Callable[..., str] | None = None,
) -> str:
    """The page with every table and every difference made anew."""

    def table(match: re.Match[str]) -> str:
        name, *arguments = match["call"].split()
        return f"<!-- table: {match['call']} -->\n\n{tables[name](*arguments)}\n\n<!-- end -->"

    page = re.sub(
        r"<!-- table: (?P<call>[^\n]*?) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL
    )
    if difference is None:
        return page

    def inline(match: re.Match[str]) -> str:
        return (
            f"<!-- difference: {match['call']} -->{difference(*match['call'].split())}<!-- end -->"
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


def aligned_difference(row: Mapping[str, float]) -> str:
    """An alignment's difference from GRPO, with its interval."""
    return with_bounds(row["difference"], row["difference_low"], row["difference_high"])


@functools.cache
def read_json(path: Path) -> dict[str, Any]:
    """A committed file, read once."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a committed file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
