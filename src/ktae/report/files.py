"""Which input file a group comes from, where there are several."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from ktae.rollouts.files import SUFFIXES
from ktae.rollouts.labels import series

FILE = re.compile(rf"([^:]+(?:{'|'.join(map(re.escape, SUFFIXES))})):")
"""What a reader puts in front of the label of a group in one of a folder's files."""


def files_of(labels: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """The labels without their files, and the files beside them.

    Args:
        labels: the groups' labels; of several inputs they begin with the input and a colon.
        names: the inputs.

    Returns:
        `label`, `files` (short names, none where the dump is one file) and `file` (for each group
        its place in `files`, -1 for none).
    """
    if not names:  # rollouts in memory: a label is a label
        return {"label": list(labels), "files": [], "file": [-1] * len(labels)}
    parts = [_split(label, names) for label in labels]
    full = list(dict.fromkeys(file for file, _ in parts if file))
    return {
        "label": [label for _, label in parts],
        "files": _short(full),
        "file": [full.index(file) if file else -1 for file, _ in parts],
    }


def _split(label: str, names: Sequence[str]) -> tuple[str, str]:
    """A label's file, empty for none, and what is left of the label."""
    # Files of one run share a series in front of their labels: rank_*.jsonl.
    known = [*names, *map(_series, names)] if len(names) > 1 else []
    name = next((name for name in known if label.startswith(f"{name}:")), "")
    label = label.removeprefix(f"{name}:")
    inner = FILE.match(label)
    if inner is None or all(x.endswith(SUFFIXES) for x in ([name] if name else names)):
        return name, label  # an input that is a file has no files in it
    return os.path.join(name, inner.group(1)), label[inner.end() :]


def _series(name: str) -> str:
    """What stands in front of labels that a file shares with others of its run."""
    folder, file = os.path.split(name)
    return os.path.join(folder, series(file))


def _short(files: list[str]) -> list[str]:
    """Without the folders that all have in common."""
    folders = {os.path.dirname(os.path.abspath(file)) for file in files}
    if not folders:
        return []
    common = os.path.commonpath(folders)
    return [os.path.relpath(file, common) for file in files]
