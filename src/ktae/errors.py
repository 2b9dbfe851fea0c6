"""The one exception that means "your input", as opposed to "our bug", and how it quotes others."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what, where, and what was expected.
    The command line exits with status 2."""


def one_line(error: Exception, longest: int = 300) -> str:
    """What an error of another library says, as part of a message of ours."""
    return " ".join(str(error).split())[:longest]


@contextlib.contextmanager
def passed_on(
    where: str, *kinds: type[Exception], install: str = "", hint: str = ""
) -> Iterator[None]:
    """Pass on what another library says of the user's input as an InputError: where it was, what
    the library says or how to install it, and a hint."""
    expected: tuple[type[Exception], ...] = (ModuleNotFoundError, *kinds)
    try:
        yield
    except InputError:
        raise
    except expected as error:
        texts = [one_line(error, 2000), hint]
        if isinstance(error, ModuleNotFoundError):
            texts = [f"{error.name} is not installed", install, hint]
        raise InputError(f"{where}: {'; '.join(filter(None, texts))}") from error


def quoted(names: Iterable[str], longest: int = 500) -> str:
    """Names as in 'a', 'b', cut to `longest` characters."""
    text = ", ".join(map(repr, names))
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def expected_one_of(known: Iterable[str], found: object) -> str:
    """The end of an error about a name: the nearest of those that are known, or else all."""
    names = list(known)
    if near := difflib.get_close_matches(str(found), names, n=1, cutoff=0.5):
        return f"did you mean {near[0]!r}?"
    return f"expected one of {', '.join(names)}" if names else "there are none"
