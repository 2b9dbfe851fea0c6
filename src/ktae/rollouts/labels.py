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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.groups import codes_of, take_rows, with_column
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import CONDITIONS, NAMES
from ktae.rollouts.schemas.base import STEP_FOLDER
from ktae.rollouts.values import PARSERS, Row

Place = tuple[str | None, str | None]
"""The run, or else the file, that rollouts come from, as far as it tells groups apart."""
READ = tuple(pa.schema({"place": pa.int32(), "is_evaluation": pa.bool_(), "by_reward": pa.bool_()}))
"""Columns beside the record's while files are read: the number of the `Place`, and whether the
rollout is of an evaluation, and correct by its reward alone."""
WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|episodes|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
KEYS = ("run", "file", "label", "prompt_id", "step")
MAX_VALUES = 64  # of a condition; a field of more is none
MIN_TURNS, SHARED = 20, 0.25  # later turns of agents, and the share of states that is noted


def place_of(file: Path, names: str, table: str | None, join: bool) -> Place:
    """The place of the rollouts of a file; `names` is what the files of a run are called."""
    if join:
        return (None, table)
    if not re.fullmatch(names, file.name):
        return (path_text(file), table) if table else (None, path_text(file))
    inside = list(itertools.takewhile(WITHIN_RUN.fullmatch, (x.name for x in file.parents)))
    run = file.parents[len(inside)] / ("eval" if "eval" in inside else "")
    return (path_text(run), table)


def grouped(table: Any, places: Sequence[Place], options: ReadOptions, notes: Notes) -> Any:
    """The record of what was read, with names for its groups, and without evaluations beside
    training; `places` are by the numbers in the column `place`."""
    training_b = pc.invert(table["is_evaluation"])
    if pc.any(training_b).as_py():
        notes.add("evaluation", n=len(table) - pc.sum(training_b).as_py())
        table = table.filter(training_b)
    place_b = table["place"]
    table = table.select(record.SCHEMA.names).replace_schema_metadata(record.SCHEMA.metadata)
    for i, name in enumerate(("run", "file")):
        # What all have in common tells nothing.
        is_told = len({place[i] for place in places}) > 1
        values = pa.array([place[i] if is_told else None for place in places], pa.string())
        table = with_column(table, name, values.take(place_b))
    n_models = len(pc.unique(table["model"].drop_null()))
    told: list[str] = []
    if n_models > 1 and not options.pool_models:
        # Pooled where most rollouts would be the only one of their model in their group.
        alone = np.bincount(codes_of(table, *KEYS, "model")) == 1
        told = ["model"] * (2 * int(alone.sum()) <= len(table))
        notes.add("models" if told else "pooled", n=n_models)
    both = table.filter(pc.and_(table["label"].is_valid(), table["prompt_id"].is_valid()))
    notes.add("split", n=_n_several(both, ("run", "file", "label", "step"), ("prompt_id",)))
    notes.add("apart", n=_n_several(table, ("label", "prompt_id", "step"), ("run", "file")))
    codes_b = codes_of(table, *KEYS, *told)
    firsts = np.unique(codes_b, return_index=True)[1]
    names = _names(take_rows(table.select([*KEYS, "model"]), firsts).to_pylist(), bool(told))
    table = with_column(table, "group", pa.array(names, pa.string()).take(pa.array(codes_b)))
    _note_beginnings(table, notes)
    _note_states(table, notes)
    return table


def _n_several(table: Any, names: Sequence[str], others: Sequence[str]) -> int:
    """How many groups of rows that agree in `names` differ in `others`."""
    firsts = np.unique(codes_of(table, *names, *others), return_index=True)[1]
    return int((np.bincount(codes_of(table, *names)[firsts]) > 1).sum())


def _names(firsts: Sequence[Row], told: bool) -> list[str]:
    """A name for each group, by its first row: with its model, and where it is from, as far as
    these differ. No other group of its step has it."""
    places = [row["run"] or row["file"] for row in firsts]
    paths = [os.path.abspath(x) for row in firsts for x in (row["run"], row["file"]) if x]
    common = os.path.commonpath(paths) if paths else ""
    names, taken = list[str](), Counter[Any]()
    for row, place in zip(firsts, places, strict=True):
        name = f"prompt {row['prompt_id']}" if row["label"] is None else row["label"]
        if place and os.path.abspath(place) != common:
            name = f"{os.path.relpath(place, common)}:{name}"
        if told and row["model"] is not None and not name.endswith(f" ({row['model']})"):
            name = f"{name} ({row['model']})"
        n = taken[name, row["step"]] = taken[name, row["step"]] + 1
        names.append(name if n == 1 else f"{name} #{n}")
    return names


# --- what only all rollouts together tell


def note_rewards(table: Any, notes: Notes) -> None:
    """Note where rewards leave open which of them mean correct."""
    rewards_b = table["reward"].filter(table["by_reward"]).to_numpy()
    values, counts = np.unique(rewards_b, return_counts=True)
    if (above := values > 0).sum() > 1 or (values[above] < 1).any():
        first = ", ".join(f"{x:g}" for x in values[above][:3]) + ", ..." * bool(above.sum() > 3)
        notes.add("values", first, int(counts[above].sum()))
    if len(rewards_b) == len(table) and len(values) > 1:
        shown = f"{values[0]:g} to {values[-1]:g}"
        notes.add("all_above", shown, n=int(above.all()))
        notes.add("none_above", shown, n=int(not above.any()))


def note_conditions(rollouts: Sequence[tuple[Row, Row]], notes: Notes) -> None:
    """Note fields that differ between rollouts of a group and come of no rollout, such as a method.

    `rollouts` are plain rows, each with its row of the record. Where notes are strict, a field
    whose name says that its rollouts are not meant to be compared is an InputError.
    """
    for name in dict.fromkeys(name for plain, _ in rollouts for name in plain):
        is_named = name.lower() in CONDITIONS
        is_outcome = not is_named and any(x in name.lower() for x in NAMES.outcomes)
        if name in PARSERS or name[:1] == "_" or is_outcome:
            continue
        of_group = defaultdict[Any, list[Any]](list)
        for plain, made in rollouts:
            if (value := plain.get(name)) is not None:
                group = tuple(map(made.get, ("label", "prompt_id", "step", "is_evaluation")))
                of_group[group].append((str(value), type(value), made.get("correct")))
        if _is_condition(list(of_group.values()), is_named):
            notes.add("conditions", repr(name))
            if notes.strict and is_named:
                raise InputError(
                    f"rollouts of a group differ in {name!r}; expected one value in each group "
                    f"(--group-by PROMPT --group-by {name} tells them apart)"
                )


def _is_condition(groups: Sequence[Sequence[Any]], is_named: bool) -> bool:
    """Whether the values of a field, with their types and verdicts, differ in most groups and
    repeat in one, and are not told by the verdict."""
    keys = {key for group in groups for key in group}
    if {kind for _, kind, _ in keys} - {str, int} or len({x for x, *_ in keys}) > MAX_VALUES:
        return False
    large = [group for group in groups if len(group) > 1]
    several = [group for group in large if len({x for x, *_ in group}) > 1]
    # A number of the rollout within its group has each value once.
    repeats = any(min(Counter(x for x, *_ in group).values()) > 1 for group in several)
    mixed = [group for group in large if len({correct for *_, correct in group}) > 1]
    tells = bool(mixed) and all(len({*group}) == len({x for x, *_ in group}) for group in mixed)
    return 2 * len(several) >= max(len(large), 1) and (is_named or (repeats and not tells))


def _note_states(rollouts: Any, notes: Notes) -> None:
    """Note agents whose states, what is seen before a later turn, are seldom shared in a group."""
    states = Counter[Any]()
    table = rollouts.select(["group", "step", "segments"])
    for batch in table.filter(table["segments"].is_valid()).to_batches():
        for group, step, parts in zip(*(x.to_pylist() for x in batch.columns), strict=True):
            seen = ""
            for part in parts:
                is_policy = part["role"] == "policy"
                states[group, step, seen] += is_policy and bool(seen)
                seen = "" if is_policy else seen + part["text"]
    shared = sum(n for n in states.values() if n > 1)
    if states.total() >= MIN_TURNS and shared < SHARED * states.total():
        notes.add("states", f"{shared:,} of {states.total():,}")


def _note_beginnings(rollouts: Any, notes: Notes) -> None:
    """Note texts that begin alike and whose token ids do not: these may begin with the prompt's."""
    has_both = pc.and_(rollouts["token_ids"].is_valid(), rollouts["response"].is_valid())
    table = rollouts.select(["response", "token_ids"]).filter(has_both)
    texts = pc.utf8_slice_codeunits(table["response"], 0, 16).to_pylist()
    heads = map(tuple, pc.list_slice(table["token_ids"], 0, 1).to_pylist())
    pairs = Counter(text for text, _ in {*zip(texts, heads, strict=True)})
    notes.add("ids_prompt", n=sum(n > 1 and len(text) == 16 for text, n in pairs.items()))
