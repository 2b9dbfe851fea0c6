"""Tables in a page: what the modules that make them share.

A table stands between `<!-- table: NAME WORDS -->` and `<!-- end -->`, a number in a sentence
between `<!-- NAME: WORDS -->` and `<!-- end -->` on one line; the text around them is written by
hand. A line must not begin with a number's marker: Markdown would end the paragraph there.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ktae.inference import mean_interval
from ktae_lab.csv_files import read_csv

LAB = Path(__file__).resolve().parents[3]
"""The laboratory's folder in a checkout; elsewhere there are no results."""
RESULTS = LAB / "results"
BENCHMARKS = LAB.parent / "benchmarks" / "results"
"""The library's measurements."""

Table = Callable[..., str]
"""Makes a table of the words after its name."""
Number = Callable[..., str]
"""Makes a number in a sentence, with its unit, of the words after its name."""


def filled(page: str, tables: Mapping[str, Table], numbers: Mapping[str, Number]) -> str:
    """The page with every table and every number made anew.

    Raises:
        KeyError: there is no table or number of a name.
    """

    def table(match: re.Match[str]) -> str:
        name, *arguments = match["call"].split()
        return f"<!-- table: {match['call']} -->\n\n{tables[name](*arguments)}\n\n<!-- end -->"

    def number(match: re.Match[str]) -> str:
        made = numbers[match["name"]](*match["words"].split())
        return f"<!-- {match['name']}:{match['words']} -->{made}<!-- end -->"

    page = re.sub(
        r"<!-- table: (?P<call>[^\n]*?) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL
    )
    return re.sub(
        r"<!-- (?P<name>[a-z-]+):(?P<words>[^\n]*?) -->[^\n]*?<!-- end -->", number, page
    )


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def newest(name: str, *key: str) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of a benchmark's CSV by these columns, in the order of the file.

    A benchmark appends to its file: of several rows of the same key the last counts.

    Raises:
        InputError: the file cannot be read, or lacks one of the columns.
    """
    rows = read_csv(BENCHMARKS / f"{name}.csv", key)
    return {tuple(row[column] for column in key): row for row in rows}


def percent(share: str, digits: int = 1) -> str:
    """Of a share between 0 and 1, as it stands in a CSV: `98.5 %`."""
    return f"{100 * float(share):.{digits}f} %"


def with_bounds(mean: float, low: float, high: float, digits: int = 3) -> str:
    """`+.012 (-.003 to +.027)`, with zeros."""
    return f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def mean_with_bounds(differences: np.ndarray, digits: int = 3) -> str:
    """Of (n,) paired differences, with the 95 % interval."""
    return with_bounds(*mean_interval(differences), digits)


def digits_of(outcome: str) -> int:
    """Lengths are tokens, everything else is of the order of 1."""
    return 1 if outcome == "length" else 3
