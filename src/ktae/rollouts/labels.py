"""Which rollouts are a group: those that agree in run, file, label, prompt, model and step.

Beside that stand the notes that only all rollouts together tell.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.groups import codes_of, group_codes, take_rows, with_column
from ktae.rollouts.names import CONDITIONS, NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.schemas.base import STEP_FOLDER
from ktae.rollouts.values import PARSERS, Row

READ = (
    pa.field("place", pa.int32()),
    pa.field("is_evaluation", pa.bool_()),
    pa.field("by_reward", pa.bool_()),
)
"""Columns beside the record's while files are read: the number of the rollout's `Place`; whether it
is of an evaluation; and whether its reward alone says that it is correct."""
WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|episodes|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
KEYS = ("run", "file", "label", "prompt_id", "step")
MAX_VALUES = 64
"""Values of a condition; a field of more is none."""
MIN_TURNS, SHARED = 20, 0.25
"""Later turns of agents, and the share of them whose state is shared, below which that is noted."""


class Place(NamedTuple):
    """Where rollouts come from, as far as it tells groups apart."""

    run: str | None
    file: str | None


def place_of(file: Path, names: str, table: str | None, join: bool) -> Place:
    """The place of the rollouts of a file."""
    run = file
    if re.fullmatch(names, file.name):
        inside = list(itertools.takewhile(WITHIN_RUN.fullmatch, (x.name for x in file.parents)))
        run = file.parents[len(inside)] / ("eval" if "eval" in inside else "")
    if join:
        return Place(None, table)
    is_alone = run == file and table is None
    return Place(None, path_text(file)) if is_alone else Place(path_text(run), table)


def grouped(table: Any, places: Sequence[Place], options: ReadOptions, notes: Notes) -> Any:
    """The record of what was read, with names for its groups, and without evaluations beside
    training; `places` are by the numbers in the column `place`."""
    training_b = pc.invert(table["is_evaluation"])
    if pc.any(training_b).as_py():
        notes.add("evaluation", n=len(table) - pc.sum(training_b).as_py())
        table = table.filter(training_b)
    place_b = table["place"].to_numpy()
    table = table.select(record.SCHEMA.names).replace_schema_metadata(record.SCHEMA.metadata)
    for i, name in enumerate(("run", "file")):
        values = pa.array([place[i] for place in places], pa.string())
        # What all have in common tells nothing.
        values = values if len(values.unique()) > 1 else pa.nulls(len(values), pa.string())
        table = with_column(table, name, values.take(pa.array(place_b)))
    n_models = len(pc.unique(table["model"].drop_null()))
    # Pooled where most rollouts would be the only one of their model in their group.
    alone = np.bincount(codes_of(table, *KEYS, "model")) == 1
    is_pooled = options.pool_models or 2 * int(alone.sum()) > len(table)
    told = n_models > 1 and not is_pooled
    if n_models > 1 and not options.pool_models:
        notes.add("pooled" if is_pooled else "models", n=n_models)
    has_both = table["label"].is_valid().to_numpy() & table["prompt_id"].is_valid().to_numpy()
    labels_b, prompts_b = (
        codes_of(table, "run", "file", "label", "step"),
        codes_of(table, "prompt_id"),
    )
    notes.add("split", n=_n_several(labels_b[has_both], prompts_b[has_both]))
    same_b = codes_of(table, "label", "prompt_id", "step")
    notes.add("apart", n=_n_several(same_b, codes_of(table, "run", "file")))
    codes_b = codes_of(table, *KEYS, *["model"] * told)
    names = _names(table, codes_b, told)
    table = with_column(table, "group", pa.array(names))
    _note_beginnings(table, notes)
    _note_states(table, notes)
    return table


def _n_several(group_b: np.ndarray, where_b: np.ndarray) -> int:
    """How many groups stand in several places."""
    pairs = np.unique(np.stack([group_b, where_b]), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


def _names(table: Any, codes_b: np.ndarray, told: bool) -> list[str]:
    """A name for the group of each row, which no other group of its step has; it has the model's
    where models are told apart, and where it is from, as far as that differs."""
    firsts = np.unique(codes_b, return_index=True)[1]
    rows = take_rows(table.select([*KEYS, "model"]), firsts).to_pylist()
    places = {place for row in rows for place in (row["run"], row["file"]) if place}
    common = os.path.commonpath([os.path.abspath(x) for x in places]) if places else ""
    names, taken = dict[int, str](), Counter[Any]()
    for i in np.argsort(firsts).tolist():
        row = rows[i]
        name = f"prompt {row['prompt_id']}" if row["label"] is None else row["label"]
        place = row["run"] or row["file"]
        if place and os.path.abspath(place) != common:
            name = f"{os.path.relpath(place, common)}:{name}"
        if told and row["model"] is not None and not name.endswith(f" ({row['model']})"):
            name = f"{name} ({row['model']})"
        taken[name, row["step"]] += 1
        n = taken[name, row["step"]]
        names[i] = name if n == 1 else f"{name} #{n}"
    codes = np.unique(codes_b, return_inverse=True)[1]
    return [names[code] for code in codes.tolist()]


# --- what only all rollouts together tell


def note_rewards(table: Any, notes: Notes) -> None:
    """Note where rewards leave open which of them mean correct."""
    rewards_b = table["reward"].filter(table["by_reward"]).to_numpy()
    values, counts = np.unique(rewards_b, return_counts=True)
    above = values > 0
    if above.sum() > 1 or (values[above] < 1).any():
        first = ", ".join(f"{x:g}" for x in values[above][:3]) + ", ..." * bool(above.sum() > 3)
        notes.add("values", first, int(counts[above].sum()))
    if len(rewards_b) == len(table) and len(values) > 1:
        shown = f"{values[0]:g} to {values[-1]:g}"
        notes.add("all_above", shown, n=int(above.all()))
        notes.add("none_above", shown, n=int(not above.any()))


def note_conditions(rollouts: Sequence[tuple[Row, Row]], notes: Notes) -> None:
    """Note fields that differ between rollouts of a group and come of no rollout, such as a method.

    `rollouts` are plain rows, each with its row of the record.

    Raises:
        InputError: where notes are strict, and a field's name says that its rollouts are not meant
            to be compared.
    """
    for name in dict.fromkeys(name for plain, _ in rollouts for name in plain):
        is_named = name.lower() in CONDITIONS
        is_outcome = not is_named and any(x in name.lower() for x in NAMES.outcomes)
        if name in PARSERS or name[:1] == "_" or is_outcome:
            continue
        of_group = defaultdict[Any, Counter[Any]](Counter)
        for plain, made in rollouts:
            if plain.get(name) is not None:
                group = tuple(map(made.get, ("label", "prompt_id", "step", "is_evaluation")))
                of_group[group][str(plain[name]), type(plain[name]), made.get("correct")] += 1
        if _is_condition(list(of_group.values()), is_named):
            notes.add("conditions", repr(name))
            if notes.strict and is_named:
                raise InputError(
                    f"rollouts of a group differ in {name!r}; expected one value in each group "
                    f"(--group-by PROMPT --group-by {name} tells them apart)"
                )


def _is_condition(groups: Sequence[Counter[Any]], is_named: bool) -> bool:
    """Whether the values of a field, with their types and verdicts, differ in most groups and
    repeat in one, and are not told by the verdict."""
    keys = {key for sizes in groups for key in sizes}
    if {kind for _, kind, _ in keys} - {str, int} or len({x for x, *_ in keys}) > MAX_VALUES:
        return False
    large = [sizes for sizes in groups if sizes.total() > 1]
    several = [sizes for sizes in large if len({x for x, *_ in sizes}) > 1]
    # A number of the rollout within its group has each value once.
    repeats = any(min(Counter(x for x, *_ in y.elements()).values()) > 1 for y in several)
    mixed = [sizes for sizes in large if len({correct for *_, correct in sizes}) > 1]
    tells = bool(mixed) and all(len(sizes) == len({x for x, *_ in sizes}) for sizes in mixed)
    return 2 * len(several) >= max(len(large), 1) and (is_named or (repeats and not tells))


def _note_states(rollouts: Any, notes: Notes) -> None:
    """Note agents whose states, what is seen before a later turn, are hardly shared in a group."""
    states: Counter[tuple[int, str]] = Counter()
    has_turns = rollouts["segments"].is_valid()
    codes = group_codes(rollouts)[0][has_turns.to_numpy()].tolist()
    chunks = rollouts["segments"].filter(has_turns).chunks
    rows = (parts for chunk in chunks for parts in chunk.to_pylist())
    for code, parts in zip(codes, rows, strict=True):
        seen = ""
        for part in parts:
            if part["role"] == "policy" and seen:
                states[code, seen] += 1
            seen = "" if part["role"] == "policy" else seen + part["text"]
    shared = sum(n for n in states.values() if n > 1)
    if states.total() >= MIN_TURNS and shared < SHARED * states.total():
        notes.add("states", f"{shared:,} of {states.total():,}")


def _note_beginnings(rollouts: Any, notes: Notes) -> None:
    """Note texts that begin alike and whose token ids do not: these may begin with the prompt's."""
    has_both = pc.and_(rollouts["token_ids"].is_valid(), rollouts["response"].is_valid())
    if pc.any(has_both).as_py():
        table = rollouts.filter(has_both)
        texts = pc.utf8_slice_codeunits(table["response"], 0, 16).to_pylist()
        heads = (x.values[:1].to_pylist() for x in table["token_ids"])
        pairs = Counter(text for text, _ in {*zip(texts, map(tuple, heads), strict=True)})
        notes.add("ids_prompt", n=sum(n > 1 and len(text) == 16 for text, n in pairs.items()))
