"""Tables in a page: what the modules that make them share.

A table stands between `<!-- table: NAME WORDS -->` and `<!-- end -->`, a number in a sentence
between `<!-- NAME: WORDS -->` and `<!-- end -->` on one line; the text around them is written by
hand. A line must not begin with a number's marker: Markdown would end the paragraph there.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

from ktae.errors import InputError
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


_OPENING = r"<!-- (?P<name>[a-z-]+):(?P<words>[^\n>]*?) -->"
_MADE = re.compile(_OPENING + r"(?:(?!<!-- [a-z-]+:).)*?<!-- end -->", re.DOTALL)
_NOT_CLOSED = re.compile(_OPENING + r"(?!(?:(?!<!-- [a-z-]+:).)*?<!-- end -->)", re.DOTALL)
_BEGINS_A_LINE = re.compile(r"^[ \t]*(?!<!-- table:)" + _OPENING, re.MULTILINE)


def by_name(kind: str, modules: Iterable[ModuleType]) -> dict[str, Callable[..., str]]:
    """What the modules have under `TABLES` or `NUMBERS`, whichever `kind` says, in one dict.

    Raises:
        ValueError: two modules use one name.
    """
    found: dict[str, Callable[..., str]] = {}
    owners: dict[str, str] = {}
    for module in modules:
        for name, maker in getattr(module, kind, {}).items():
            if name in owners:
                raise ValueError(
                    f"{kind} of {owners[name]} and of {module.__name__} both have {name!r}; "
                    "a marker names one of them, so rename the other"
                )
            found[name], owners[name] = maker, module.__name__
    return found


def filled(
    text: str, where: str, tables: Mapping[str, Table], numbers: Mapping[str, Number]
) -> str:
    """The text of a page with every table and every number made anew.

    Args:
        where: what errors call the page.

    Raises:
        InputError: a marker is not closed, a number's marker begins a line, there is no table or
            number of a name, it takes other words, or the results lack what it shows.
    """
    if wrong := _NOT_CLOSED.search(text):
        raise InputError(f"{where}: no `<!-- end -->` follows `{wrong[0]}`")
    if wrong := _BEGINS_A_LINE.search(text):
        raise InputError(
            f"{where}: `{wrong[0].strip()}` begins a line, where Markdown ends the paragraph; "
            "put a word before it"
        )

    def anew(match: re.Match[str]) -> str:
        opening = f"<!-- {match['name']}:{match['words']} -->"
        at, words = f"{where}, `{opening}`", match["words"].split()
        if match["name"] != "table":
            return f"{opening}{_made(at, 'number', numbers, match['name'], words)}<!-- end -->"
        if not words:
            raise InputError(f"{at}: the name of a table is missing")
        return f"{opening}\n\n{_made(at, 'table', tables, words[0], words[1:])}\n\n<!-- end -->"

    return _MADE.sub(anew, text)


def _made(
    at: str, kind: str, makers: Mapping[str, Callable[..., str]], name: str, words: list[str]
) -> str:
    """What one marker stands for."""
    if name not in makers:
        raise InputError(f"{at}: no {kind} has the name {name!r}; there are {', '.join(makers)}")
    try:
        inspect.signature(makers[name]).bind(*words)
    except TypeError as error:
        raise InputError(f"{at}: wrong words after {name!r}: {error}") from None
    try:
        return makers[name](*words)
    except LookupError as error:
        missing = error.args[0] if error.args else name
        raise InputError(f"{at}: the results have no {missing!r}") from error
    except ValueError as error:
        raise InputError(f"{at}: {error}") from error


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
    """A share between 0 and 1, which is text in a CSV, in per cent: `98.5 %`."""
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
