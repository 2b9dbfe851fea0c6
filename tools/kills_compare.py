"""Whether two folders that a command wrote hold the same, but for times, memory and attempts."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

CLOCK = ("seconds", "step_time", "runtime", "per_second", "step_share", "peak_memory_bytes")
"""A key or column that has one of these in its name is of the clock or of the memory."""

COUNTS = ("attempts", "failures", "kills", "machine", "commit", "date", "interrupted", "error")
"""And these of how a study came to its end."""

LEFT_OUT = ("README.md", "trained_by.json")
"""The model card, in which TRL writes tags in the order of a set; on which machine, from which
commit and when a study's runs were trained."""


def differing(one: Path, other: Path) -> list[str]:
    """The files that differ, or are in one of the two folders alone."""
    names = sorted({*files(one), *files(other)})
    return [name for name in names if content(one / name) != content(other / name)]


def files(folder: Path) -> list[str]:
    """All but logs, locks, and what `LEFT_OUT` names."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in found if path.suffix not in (".log", ".lock")]
    return [str(path.relative_to(folder)) for path in kept if path.name not in LEFT_OUT]


def leftovers(folder: Path) -> list[str]:
    """What a killed process was writing at that moment, of ktae's own: names with a dot in front;
    a study's locks are none."""
    hidden = [path for path in folder.rglob(".*") if not path.name.endswith(".lock")]
    return [str(path.relative_to(folder)) for path in hidden]


def content(path: Path) -> Any:
    """Of JSON and CSV what is not of the clock; of all else the bytes; None: there is no file."""
    if not path.is_file():
        return None
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = gzip.decompress(raw)
    name = path.name.removesuffix(".gz")
    if name.endswith(".json"):
        return timeless(json.loads(raw))
    if name.endswith(".jsonl"):
        return [timeless(json.loads(line)) for line in raw.splitlines()]
    if name.endswith(".csv"):
        return [timeless(row) for row in csv.DictReader(io.StringIO(raw.decode()))]
    return raw


def timeless(value: Any) -> Any:
    """Without the keys of the clock, at any depth."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not is_left_out(str(key))}
        return {key: timeless(item) for key, item in kept.items()}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def is_left_out(key: str) -> bool:
    return any(part in key for part in (*CLOCK, *COUNTS))
