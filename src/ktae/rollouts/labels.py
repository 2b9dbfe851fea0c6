"""Which rollouts are a group: one label and one prompt, in one step, of one file or run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.groups import group_codes, numbered
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import PathError
from ktae.rollouts.rows import prompt_label
from ktae.rollouts.schemas.base import STEP_FOLDER, Schema

READ = (
    pa.field("file", pa.int32()),
    pa.field("is_evaluation", pa.bool_()),
    pa.field("by_reward", pa.bool_()),
)
"""Columns beside the record's while files are read: the file's number; whether the rollout is of an
evaluation; whether its reward alone says that it is correct, null where ktae has written it, with
the labels of groups."""
WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|episodes|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
OWN_STEP = r"step-\d+\.parquet"
"""The files of ktae's own run folder."""


def run_of(file: Path, schema: Schema | None) -> Path:
    """The folder of the run whose file it is, by its tool's names; or else the file itself.

    Its evaluations, which may be of the same prompts, are apart. `schema` is that of its rows;
    None for a record that ktae has written.
    """
    if not re.fullmatch(OWN_STEP if schema is None else schema.run, file.name):
        return file
    folder, inside = file.parent, set()
    while folder.name and WITHIN_RUN.fullmatch(folder.name):
        inside.add(folder.name)
        folder = folder.parent
    return folder / "eval" if "eval" in inside else folder


def front_of(path: Path, file: Path, schema: Schema | None, is_alone: bool) -> str:
    """What stands in front of the labels of a file's groups, if other files or runs have another.

    `path` is the input whose file it is; `is_alone`: there is no other input.
    """
    run = run_of(file, schema)
    root = path if path.is_dir() or run == file else run
    parts = [] if is_alone else [root]
    parts += [run.relative_to(root)] if root in run.parents else []
    return "".join(f"{path_text(part)}:" for part in parts)


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


def labelled(table: Any, fronts: Sequence[str], options: ReadOptions, notes: Notes) -> Any:
    """The record of what was read, with the labels of its groups, and without evaluations beside
    training.

    Args:
        table: the record's columns and those of `READ`.
        fronts: of the labels of each file; those of a run have the same.
        options: `join` takes all together; with a group that was named a second prompt is an error.
        notes: takes what was told apart and left out.
    """
    file_b, is_evaluation_b = (table[x].to_numpy() for x in ("file", "is_evaluation"))
    place_b = numbered(pa.chunked_array([fronts]))[file_b]
    told_b = pc.and_(pc.is_valid(table["prompt"]), pc.is_valid(table["by_reward"])).to_numpy()
    kind_b = 2 * place_b + is_evaluation_b
    table = table.select(record.SCHEMA.names).replace_schema_metadata(record.SCHEMA.metadata)
    table = one_prompt_each(table, kind_b, told_b, "group" in options.fields, notes)
    label_b, _ = group_codes(table)
    if options.join:
        n_files = len(np.unique(file_b))
        notes.add("join", n=n_files if n_files > 1 else 0)
    elif file_b.any():  # several files
        notes.add("run", n=n_several(label_b * (kind_b.max() + 1) + kind_b, file_b))
        notes.add("apart", n=n_several(label_b, place_b))
    if (place_b != place_b[0]).any():
        front_b = pa.array(fronts).take(pa.array(file_b))
        table = with_groups(table, pc.binary_join_element_wise(front_b, table["group"], ""))
    note_copies(table, notes)
    kept_b = of_one_kind(is_evaluation_b, options.evaluation, notes)
    return table if kept_b.all() else table.filter(pa.array(kept_b))


def note_copies(table: Any, notes: Notes) -> None:
    """Note where every response stands in its group more than once."""
    # Arrow's `group_by` would copy all texts twice.
    hashes = [hash(text) for chunk in table["response"].chunks for text in chunk.to_pylist()]
    texts = np.array([group_codes(table)[0], hashes])[:, table["response"].is_valid()]
    copies = np.unique(texts, axis=1, return_counts=True)[1]
    if len(copies) > 1 and copies.min() > 1:
        notes.add("copies", n=int((copies - 1).sum()))


def one_prompt_each(
    table: Any, kind_b: np.ndarray, told_b: np.ndarray, is_named: bool, notes: Notes
) -> Any:
    """The record; rollouts with another prompt than the first of their group get a label of both.

    `kind_b` numbers their places, evaluations apart, and `told_b` says which are told apart by
    their prompts.

    Raises:
        PathError: a user has named the group (`is_named`), and it has several prompts.
    """
    label_b, _ = group_codes(table)
    group_b = label_b * (kind_b.max(initial=0) + 1) + kind_b
    prompt_b = numbered(pc.utf8_trim_whitespace(table["prompt"]))
    valid = np.flatnonzero(told_b)
    # Each group's first prompt, for the rollouts of the group.
    known, first = np.unique(group_b[valid], return_index=True)
    place = np.searchsorted(known, group_b[valid])
    others = valid[prompt_b[valid] != prompt_b[valid[first]][place]]
    if not len(others):
        return table
    groups = table["group"].to_pylist()
    for row in others.tolist():
        label, prompt = groups[row], table["prompt"][row].as_py()
        if is_named:
            raise PathError(
                f"group {label!r:.60} has two prompts: {prompt!r:.80} is not that of its first "
                "rollout; a group is one label and one prompt (--field prompt=PATH of the same "
                "value says that they are one)"
            )
        groups[row] = f"{label}, {prompt_label(prompt)}"
    notes.add("split", n=len(others))
    return with_groups(table, pa.array(groups, pa.string()))


def of_one_kind(is_evaluation_b: np.ndarray, evaluation: bool, notes: Notes) -> np.ndarray:
    """(B,) which rollouts are read: of evaluations and training in one dump those of one kind."""
    kept_b = is_evaluation_b if evaluation else ~is_evaluation_b
    if kept_b.all() or not kept_b.any():
        return np.ones(len(kept_b), dtype=bool)
    notes.add("training" if evaluation else "evaluation", n=int((~kept_b).sum()))
    return kept_b


def n_several(group_b: np.ndarray, where_b: np.ndarray) -> int:
    """How many groups stand in several places."""
    pairs = np.unique(np.stack([group_b, where_b]), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


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
    pairs = zip(table["group"].to_pylist(), table["model"].to_pylist(), strict=True)
    # A record that was read and written before has the model in its labels already.
    labels = [x if m is None or x.endswith(f" ({m})") else f"{x} ({m})" for x, m in pairs]
    return with_groups(table, pa.array(labels, pa.string()))


def with_groups(table: Any, groups: Any) -> Any:
    """`table` with other labels of its groups."""
    return table.set_column(0, record.SCHEMA.field("group"), groups)
