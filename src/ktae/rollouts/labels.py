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

import pyarrow.compute as pc

from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.schemas.training import STEP_FOLDER
from ktae.rollouts.tolerance import Tolerance

STEPS = re.compile(rf"{STEP_FOLDER.pattern}|epoch[_-]?\d+")
"""The names of folders of one step or epoch of a run."""
SHARD = re.compile(r"(?:rank|shard|worker|part)[_-]?\d+")
"""The names of folders of which each holds a share of a run's rollouts."""


def label(table: Any, prefix: str) -> Any:
    """`table` with `prefix` in front of every group's label."""
    return _with_groups(table, pc.binary_join_element_wise(prefix, table["group"], ""))


def by_file(parts: Sequence[Any], names: Sequence[Path]) -> list[Any]:
    """The records of a folder's files, with a name in front of labels that are not shared.

    That is the run's folder, or else its step's. Where these do not share labels, it is the file.

    Args:
        parts: one record a file.
        names: the files, below the folder.
    """
    held = Counter(x for name in names for x in name.parents) if _are_alone(parts) else {}
    places = [_run_and_step(_folder(name, held)) for name in names]
    runs: dict[Path, dict[Path, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for part, (run, step) in zip(parts, places, strict=True):
        runs[run][step].append(part)
    over_steps = {run for run, by_step in runs.items() if _steps_differ(list(by_step.values()))}
    in_steps = {run for run, by_step in runs.items() if all(map(_share, by_step.values()))}
    prefixes = [
        run if run in over_steps else step if run in in_steps else name
        for name, (run, step) in zip(names, places, strict=True)
    ]
    if len(set(prefixes)) == 1:
        return list(parts)
    return [
        part if prefix == Path() else label(part, f"{path_text(prefix)}:")
        for part, prefix in zip(parts, prefixes, strict=True)
    ]


def _folder(name: Path, held: Mapping[Path, int]) -> Path:
    """The file's folder; where it holds that file alone, as `held` counts them, the one around it.

    Some tools give each rollout a folder. A step may have one rollout, and keeps its folder.
    """
    folder = name.parent
    while (
        folder.name
        and held.get(folder) == 1
        and (folder.name.startswith("rollout") or not STEPS.fullmatch(folder.name))
    ):
        folder = folder.parent
    return folder


def _run_and_step(folder: Path) -> tuple[Path, Path]:
    """The folder of the run that a folder belongs to, and that of its step."""
    n = len(folder.parts)
    while n and (SHARD.fullmatch(folder.parts[n - 1]) or STEPS.fullmatch(folder.parts[n - 1])):
        n -= 1
    run = Path(*folder.parts[:n])
    return run, run.joinpath(*(x for x in folder.parts[n:] if not SHARD.fullmatch(x)))


def _share(parts: Sequence[Any]) -> bool:
    """Whether the same label in two files of one step is the same group."""
    return _have_steps(parts) or _are_alone(parts)


def _are_alone(parts: Iterable[Any]) -> bool:
    return all(len(part) == 1 for part in parts)


def _have_steps(parts: Iterable[Any]) -> bool:
    return not any(part["step"].null_count for part in parts)


def _steps_differ(by_folder: Sequence[Sequence[Any]]) -> bool:
    """Whether all rollouts have a step, and no step is in two of the folders."""
    if not all(map(_have_steps, by_folder)):
        return False
    found = Counter[int]()
    for parts in by_folder if len(by_folder) > 1 else ():
        found.update({step for part in parts for step in pc.unique(part["step"]).to_pylist()})
    return max(found.values(), default=1) == 1


def by_model(table: Any, pool: bool | None, tolerance: Tolerance) -> Any:
    """`table` with the model in its groups' labels, where there are several that are told apart."""
    models = [name for name in pc.unique(table["model"]).to_pylist() if name is not None]
    if len(models) < 2:
        return table
    tolerance.models = len(models)
    tolerance.pooled = _most_are_alone(table) if pool is None else pool
    if tolerance.pooled:
        return table
    groups = table["group"]
    for name in models:
        suffix = f" ({name})"
        # A record that was read and written before has it already.
        new = pc.and_(pc.equal(table["model"], name), pc.invert(pc.ends_with(groups, suffix)))
        joined = pc.binary_join_element_wise(groups, suffix, "")
        groups = pc.if_else(pc.fill_null(new, False), joined, groups)
    return _with_groups(table, groups)


def _most_are_alone(table: Any) -> bool:
    """Whether most rollouts would be the only one of their model in their group."""
    sizes = table.group_by(["group", "step", "model"]).aggregate([([], "count_all")])["count_all"]
    alone = pc.sum(pc.equal(sizes, 1)).as_py() or 0
    return bool(2 * alone > len(table))


def _with_groups(table: Any, groups: Any) -> Any:
    return table.set_column(0, record.SCHEMA.field("group"), groups)
