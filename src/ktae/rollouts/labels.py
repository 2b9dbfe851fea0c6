"""Which rollouts are a group: one label and one prompt, in one step, of one file or run."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import PathError
from ktae.rollouts.rows import Row, prompt_label
from ktae.rollouts.schemas.base import STEP_FOLDER, Schema

WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
OWN_STEP = re.compile(r"step-\d+\.parquet")
"""The files of ktae's own run folder."""


def run_of(file: Path, schema: Schema | None) -> Path:
    """The folder of the run whose file it is, by its tool's names; or else the file itself.

    Its evaluations, which may be of the same prompts, are apart. `schema` is that of its rows;
    None for a record that ktae has written.
    """
    pattern = OWN_STEP if schema is None else re.compile(schema.run)
    if not pattern.fullmatch(file.name):
        return file
    folder, inside = file.parent, set()
    while folder.name and WITHIN_RUN.fullmatch(folder.name):
        inside.add(folder.name)
        folder = folder.parent
    return folder / "eval" if "eval" in inside else folder


class Labels:
    """The labels of all rollouts that are read, which are known when all are."""

    def __init__(self, options: ReadOptions, notes: Notes, several: bool) -> None:
        """`several`: whether there are several files."""
        self.options, self.notes, self.several = options, notes, several
        self.places: dict[tuple[Path, Path], int] = {}
        """Numbers of files or runs, each with the input that it was given by."""
        self.place = self.file = -1
        self.place_b, self.is_evaluation_b = array("q"), array("b")
        """Of each rollout."""
        self.first: dict[tuple[Any, ...], tuple[int | None, int]] = {}
        """Of each group the hash of its prompt, and its file."""
        self.elsewhere: dict[tuple[Any, Any], int] = {}
        """Of each label and step the place where it was first."""
        self.apart: set[tuple[Any, Any]] = set()
        self.joined: set[tuple[Any, ...]] = set()

    def begin(self, file: Path, root: Path, schema: Schema | None) -> None:
        """What is added from now on is of this file, which is the input `root` or lies in it."""
        self.file += 1
        scope = run_of(file, schema)
        key = (root if root.is_dir() or scope == file else scope, scope)
        if self.options.join:
            key = (Path(), Path())
            self.notes.counts["join"] = self.file + 1 if self.file else 0
        self.place = self.places.setdefault(key, len(self.places))

    def add(self, row: Row, is_evaluation: bool) -> None:
        """Count a row of the record in, and tell its group from others of its label."""
        self.place_b.append(self.place)
        self.is_evaluation_b.append(is_evaluation)
        label, step, prompt = row["group"], row["step"], row["prompt"]
        digest = None if prompt is None else hash(prompt.strip())
        key = ((self.place, is_evaluation), label, step)
        first, file = self.first.setdefault(key, (digest, self.file))
        if first is None:
            self.first[key] = digest, file
        elif digest not in (first, None):
            if "group" in self.options.fields:
                raise PathError(
                    f"group {label!r:.60} has two prompts: {prompt!r:.80} is not that of its "
                    "first rollout; a group is one label and one prompt (--field prompt=PATH of "
                    "the same value says that they are one)"
                )
            self.notes.add("split")
            row["group"] = f"{label}, {prompt_label(prompt)}"
            key = (key[0], row["group"], step)
            _, file = self.first.setdefault(key, (digest, self.file))
        if self.several:
            self._across(key, file)

    def add_table(self, table: Any) -> None:
        """Count in a part of a record that ktae has written, whose labels are as they should be."""
        self.place_b.extend([self.place] * len(table))
        self.is_evaluation_b.extend([False] * len(table))
        if self.several:
            for pair in set(zip(*(table[x].to_pylist() for x in ("group", "step")), strict=True)):
                key = ((self.place, False), *pair)
                self._across(key, self.first.setdefault(key, (None, self.file))[1])

    def _across(self, key: tuple[Any, ...], file: int) -> None:
        """Note groups that stand in several files."""
        if file != self.file:
            self.joined.add(key)
        if self.elsewhere.setdefault(key[1:], self.place) != self.place:
            self.apart.add(key[1:])

    def finish(self, table: Any) -> Any:
        """The record with the labels that it gets, without evaluations beside training."""
        self.notes.add("run", n=0 if self.options.join else len(self.joined))
        self.notes.add("apart", n=len(self.apart))
        if len(self.places) > 1:
            several_inputs = len({root for root, _ in self.places}) > 1
            fronts = []
            for root, scope in self.places:
                inner = scope != root and root in scope.parents
                parts = [root] * several_inputs + [scope.relative_to(root)] * inner
                fronts.append("".join(f"{path_text(x)}:" for x in parts))
            front = pa.array(fronts, pa.string()).take(pa.array(self.place_b))
            groups = table["group"].combine_chunks()
            table = with_groups(table, pc.binary_join_element_wise(front, groups, ""))
        # How often each text is there in a group.
        texts = table.filter(pc.is_valid(table["response"])).group_by(["group", "step", "response"])
        copies = texts.aggregate([([], "count_all")])["count_all"]
        if len(copies) > 1 and pc.min(copies).as_py() > 1:
            self.notes.add("copies", n=pc.sum(copies).as_py() - len(copies))
        kind_b = np.array(self.is_evaluation_b, dtype=bool)
        if kind_b.any() and not kind_b.all():
            kept_b = kind_b == self.options.evaluation
            key = "training" if self.options.evaluation else "evaluation"
            self.notes.add(key, n=int((~kept_b).sum()))
            table = table.filter(pa.array(kept_b))
        return table


def by_model(table: Any, pool: bool | None, notes: Notes) -> Any:
    """`table` with the model in its groups' labels, where there are several that are told apart."""
    models = [name for name in pc.unique(table["model"]).to_pylist() if name is not None]
    if len(models) < 2:
        return table
    if pool is None:  # where most rollouts would be the only one of their model in their group
        keys = ["group", "step", "model"]
        sizes = table.group_by(keys).aggregate([([], "count_all")])["count_all"]
        pool = 2 * (pc.sum(pc.equal(sizes, 1)).as_py() or 0) > len(table)
    notes.counts["pooled" if pool else "models"] = len(models)
    if pool:
        return table
    groups = table["group"]
    for name in models:
        suffix = f" ({name})"
        # A record that was read and written before has it already.
        new = pc.and_(pc.equal(table["model"], name), pc.invert(pc.ends_with(groups, suffix)))
        joined = pc.binary_join_element_wise(groups, suffix, "")
        groups = pc.if_else(pc.fill_null(new, False), joined, groups)
    return with_groups(table, groups)


def with_groups(table: Any, groups: Any) -> Any:
    """`table` with other labels of its groups."""
    return table.set_column(0, record.SCHEMA.field("group"), groups)
