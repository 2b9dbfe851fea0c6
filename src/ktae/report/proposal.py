"""For a file that nothing reads: a command line that does, which has been tried."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.rollouts import readers
from ktae.rollouts.files import iterate_rows
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import LIKELY, NAMES, UnknownRowsError, name_of
from ktae.rollouts.plain import Columns, leaves, usual_rows
from ktae.rollouts.schemas import Source
from ktae.rollouts.values import KINDS, Row, as_label

LOOKED_AT = 1000  # rows of a file
TRIED = 3  # candidates of each field that are tried
FITS = 0.9  # share of a field's values that are what it is proposed for, and of rows to be read


@contextlib.contextmanager
def proposing(inputs: Any, options: ReadOptions) -> Iterator[None]:
    """Add a command line that reads the file to the error of a single one that nothing reads."""
    try:
        yield
    except UnknownRowsError as error:
        paths = readers.paths_of(inputs)
        proposal = propose(paths[0], options) if len(paths) == 1 and paths[0].is_file() else None
        if proposal is None:
            raise
        raise UnknownRowsError(f"{error}\n{proposal}") from None


def propose(path: Path, options: ReadOptions) -> str | None:
    """What a person is told of fields that read a file; None where none are found."""
    source = Source(path, options, Notes())
    located = readers.Reader(options, source.notes).located(iterate_rows(path), source)
    rows = [x.row for x in itertools.islice(located, LOOKED_AT) if isinstance(x.row, dict)]
    likely = candidates(usual_rows(rows) if rows else [])
    named = options.fields.get("response")
    responses = [named] if named else likely["response"][:TRIED]
    outcomes = likely["reward"][:TRIED] if options.needs_reward else [None]
    for response, reward in itertools.product(responses, outcomes):
        others = {name: [x for x in paths if x != response] for name, paths in likely.items()}
        for group in [*others["group"][:TRIED], None]:
            fields = {"response": response, "group": group, "reward": reward}
            fields |= {x: others[x][0] for x in ("prompt", "answer") if len(others[x]) == 1}
            known = {k: x for k, x in fields.items() if x is not None}
            if told := _tried(path, known, options):
                return told
    return None


def candidates(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Paths of rows that may be a rollout's fields, by field, the most likely first."""
    columns, kept = Columns(rows), defaultdict[str, list[Any]](list)
    for i, path in enumerate(dict.fromkeys(path for row in rows[:20] for path, _ in leaves(row))):
        if not path or not columns.fits(path, KINDS["any"], 1, FITS):
            continue
        fits = {kind: columns.fits(path, is_kind, FITS) for kind, is_kind in KINDS.items()}
        ranks = {name: _rank(path, name) for name in LIKELY}
        values = columns.values(path)
        n, length = len({str(as_label(x)) for x in values}), sum(map(len, map(str, values)))
        # A conversation says who wrote what.
        is_long = length > 40 * len(values) and 2 * n > len(values)
        is_other = fits["decided"] or re.search("|".join(NAMES.not_policy), path.lower())
        if fits["policy"]:
            kept["response"].append((-1, i, path))
        elif fits["text"] and not is_other and n > 1 and (ranks["response"] < 100 or is_long):
            kept["response"].append((ranks["response"] // 100, -length / len(values), path))
        # A word such as "incorrect" is a verdict under any name, and a number seldom is.
        are_words = not any(str(x)[:1].isdecimal() for x in values)
        is_named = are_words or re.search("|".join(NAMES.reward_like), path.lower())
        if (fits["decided"] and is_named) or (fits["number"] and ranks["reward"] < 100):
            kept["reward"].append((n < 2, ranks["reward"], not fits["decided"], path))
        is_named = ranks["group"] < 100 or re.search(r"(^|_)(id|idx|index|key)$", name_of(path))
        if is_named and 1 < n < len(values) and columns.fits(path, KINDS["label"], 1.0):
            kept["group"].append((ranks["group"], path))
        for name in ("prompt", "answer"):  # further inside a row
            if "." in path and n > 1 and ranks[name] < 99 and fits["said"]:
                kept[name].append((i, path))
    return {name: [path for *_, path in sorted(kept[name])] for name in LIKELY}


def _rank(path: str, meaning: str) -> int:
    """How likely a field has a meaning by its name, or that of the object that it is the text of;
    100: hardly."""
    last, outer = name_of(path), path.rpartition(".")[0]
    if last in ("raw", "text", "content", "value") and outer:
        last = name_of(outer)
    names, parts = LIKELY[meaning], {*re.split(r"[\W_]+", last)}
    known = [names.index(x) for x in (last, last.removesuffix("s")) if x in names]
    return known[0] if known else 100 if parts.isdisjoint(names) else 99


def _tried(path: Path, fields: dict[str, str], options: ReadOptions) -> str | None:
    """What a person is told of these fields; None where they do not read the file."""
    how = dataclasses.replace(options, fields={**options.fields, **fields})
    notes = Notes()
    try:
        table = readers.read([path], how, notes=notes)
    except InputError:
        return None
    n, n_groups, counts = len(table), len(group_codes(table)[1]), notes.counts
    left, correct = counts["rejected"], table["correct"].to_pylist()
    # A group's texts are one where they are what was asked.
    n_texts = len(pc.unique(table["response"]))
    is_alone = n_groups in (n, n_texts) or n_texts < n_groups
    is_mixed = len({*correct} - {None}) == 2 and 2 * correct.count(None) <= n
    # A number of the response is no group: its prompts are several, and are in other groups, too.
    n_prompts = len(pc.unique(table["prompt"]))
    pairs = {*zip(table["group"].to_pylist(), table["prompt"].to_pylist(), strict=True)}
    is_alone |= len(pairs) > max(n_groups, n_prompts)
    is_whole = left <= max(1, (1 - FITS) * (n + left)) and not counts["turn_rows"] + counts["alone"]
    if is_alone or not is_whole or (options.needs_reward and not is_mixed):
        return None
    flags = [f"--rows {shlex.quote(options.rows)}"] if options.rows else []
    flags += [f"--field {shlex.quote(f'{k}={x}')}" for k, x in fields.items()]
    shown = {x: table[x][0].as_py() for x in ("prompt", "response")}
    lines = [
        f"this reads {n:,} of {n + left:,} rows: {n_groups:,} groups, {correct.count(1.0):,} "
        f"correct, {correct.count(0.0):,} incorrect:",
        f"  ktae report {shlex.quote(str(path))} {' '.join(flags)}",
        *(f"  the first {k} begins {x[:60]!r}" for k, x in shown.items() if x),
    ]
    return "\n".join(lines)
