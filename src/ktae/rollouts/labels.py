"""The labels of groups over several files and several models: what is one group, and what is not.

Whether the same label in two files is the same group is told by the folders that they lie in, by
their steps, and by how many rollouts they hold.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.schemas.training import STEP_FOLDER
from ktae.rollouts.tolerance import Tolerance

STEPS = re.compile(rf"{STEP_FOLDER.pattern}|epoch[_-]?\d+")
"""The names of folders of one step or epoch of a run."""
SHARD = re.compile(r"(?:rank|shard|worker|part)[_-]?\d+")
"""The names of folders of which each holds a share of a run's rollouts."""

COUNTED = (
    *("step", "iter", "rollout", "epoch", "rank", "shard"),
    *("worker", "part", "gpu", "node", "host", "proc", "rs"),
)
APART = ("seed", "run", "trial", "exp", "model", "version", "try")
"""What a number after these words counts are runs: other policies, whose groups are others."""
NUMBER = re.compile(
    "|".join(
        [
            "".join(rf"(?<!{word}[_-])" for word in APART) + r"(?<![^\W_])\d+",
            *(rf"(?<={word})\d+" for word in COUNTED),
        ]
    ),
    re.IGNORECASE,
)
"""A number in a file's name that counts files of one kind: the 24 of `aime24` is none."""


def series(name: str) -> str:
    """What a file's name has in common with those that differ in a number: `rank_*.jsonl`."""
    return NUMBER.sub("*", name)


def by_file(
    parts: Sequence[Any], names: Sequence[Path], tolerance: Tolerance | None = None
) -> list[Path]:
    """What goes in front of the labels of each file: the same for files that share their groups.

    That is the run's folder, or else its step's. Where these do not share labels, it is the file.
    Files of several series in one folder are several runs, and bear the series' name.

    Args:
        parts: one record a file.
        names: the files, below the folder.
        tolerance: for notes where the same group and step is in two files.
    """
    # Where each file has one rollout, folders alone say what belongs together.
    alone = all(len(part) == 1 for part in parts)
    held = Counter(x for name in names for x in name.parents) if alone else {}
    places = [_run_and_step(name, held) for name in names]
    kinds = ["" if alone else series(name.name) for name in names]
    runs: dict[tuple[Path, str], dict[Path, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for part, (run, step), kind in zip(parts, places, kinds, strict=True):
        runs[run, kind][step].append(part)
    # Runs of which several series of files lie in one folder.
    several = {run for run, n in Counter(run for run, _ in runs).items() if n > 1}
    # Runs whose rollouts all have a step, none of which is in two of the run's folders.
    over_steps = set()
    for run_and_kind, by_step in runs.items():
        folders_of = Counter[int]()
        for files in by_step.values() if len(by_step) > 1 else ():
            steps = {step for part in files for step in pc.unique(part["step"]).to_pylist()}
            folders_of.update(steps)
        if all(map(_have_steps, by_step.values())) and max(folders_of.values(), default=1) == 1:
            over_steps.add(run_and_kind)
    # In one step's files the same label is one group, if steps or single rollouts tell them apart.
    in_steps = {
        run
        for run, by_step in runs.items()
        if all(_have_steps(x) or all(len(part) == 1 for part in x) for x in by_step.values())
    }
    prefixes = []
    for name, (run, step), kind in zip(names, places, kinds, strict=True):
        # The widest place in which labels are shared: the run, its step, or the file alone.
        shared = run if (run, kind) in over_steps else step if (run, kind) in in_steps else name
        if run in several and shared != name:
            shared = shared / kind if sum(map(len, runs[run, kind].values())) > 1 else name
        prefixes.append(shared)
    if tolerance is not None and not alone:
        of_runs = [run for run, _ in places]
        tolerance.joined += _in_common(parts, names, list(zip(prefixes, names, strict=True)))
        tolerance.apart += _in_common(parts, names, list(zip(of_runs, kinds, strict=True)))
    return prefixes


def _in_common(
    parts: Sequence[Any], names: Sequence[Path], places: Sequence[tuple[Path, object]]
) -> list[list[str]]:
    """The files of each place of which two kinds have the same group of the same step.

    Args:
        parts: one record a file.
        names: the files.
        places: of each file its place, and of which kind it is there.
    """
    members: dict[Path, dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (place, kind) in enumerate(places):
        members[place][kind].append(i)
    shared = []
    for by_kind in members.values():
        records = [pa.concat_tables([parts[i] for i in these]) for these in by_kind.values()]
        if len(records) > 1 and _have_steps(records):
            # Each kind's groups and steps once: fewer together than apart if two kinds share one.
            keys = ["group", "step"]
            each = [x.select(keys).group_by(keys).aggregate([]) for x in records]
            together = pa.concat_tables(each)
            if together.group_by(keys).aggregate([]).num_rows < together.num_rows:
                shared.append([path_text(names[i]) for these in by_kind.values() for i in these])
    return shared


def _run_and_step(name: Path, held: Mapping[Path, int]) -> tuple[Path, Path]:
    """The folder of the run that a file belongs to, and that of its step.

    Args:
        name: the file.
        held: how many files a folder holds, where each file is one rollout.
    """
    # Some tools give each rollout a folder. A step may have one rollout, and keeps its folder.
    folder = name.parent
    while (
        folder.name
        and held.get(folder) == 1
        and (folder.name.startswith("rollout") or not STEPS.fullmatch(folder.name))
    ):
        folder = folder.parent
    # Ranks, steps and epochs at the end of a path are parts of the run above them.
    n = len(folder.parts)
    while n and (SHARD.fullmatch(folder.parts[n - 1]) or STEPS.fullmatch(folder.parts[n - 1])):
        n -= 1
    run = Path(*folder.parts[:n])
    return run, run.joinpath(*(x for x in folder.parts[n:] if not SHARD.fullmatch(x)))


def _have_steps(parts: Iterable[Any]) -> bool:
    return not any(part["step"].null_count for part in parts)


def by_model(table: Any, pool: bool | None, tolerance: Tolerance) -> Any:
    """`table` with the model in its groups' labels, where there are several that are told apart."""
    models = [name for name in pc.unique(table["model"]).to_pylist() if name is not None]
    if len(models) < 2:
        return table
    tolerance.models = len(models)
    if pool is None:  # where most rollouts would be the only one of their model in their group
        keys = ["group", "step", "model"]
        sizes = table.group_by(keys).aggregate([([], "count_all")])["count_all"]
        pool = 2 * (pc.sum(pc.equal(sizes, 1)).as_py() or 0) > len(table)
    tolerance.pooled = bool(pool)
    if tolerance.pooled:
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
