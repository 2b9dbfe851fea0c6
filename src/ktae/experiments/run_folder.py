"""The run folder: what a training leaves on disk, and where."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktae.errors import InputError, one_line
from ktae.files.atomic import atomic_write, make_folder, remove_unfinished, unfinished
from ktae.rollouts import record

LONGEST_NAME = 255
"""Bytes of one name in a path."""


class RunFolder:
    """Paths and files of one run.

    `recipe.yaml` the whole recipe; `metrics.jsonl` one line a training step; `rollouts/` one
    Parquet file of rollouts a training step; `checkpoints/`; `before.json` and `summary.json` the
    held-out scores; `model/` the trained policy.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is made yet.

        Raises:
            InputError: a name in the path is longer than file systems take.
        """
        if any(len(os.fsencode(name)) > LONGEST_NAME for name in path.parts):
            raise InputError(f"run folder {path!s:.40}... has a name of over 255 bytes")
        self.path = path
        self.lock = path / ".lock"
        self.recipe = path / "recipe.yaml"
        self.metrics = path / "metrics.jsonl"
        self.rollouts = path / "rollouts"
        self.checkpoints = path / "checkpoints"
        self.before = path / "before.json"
        self.summary = path / "summary.json"
        self.model = path / "model"

    def require_free(self) -> None:
        """Raise an InputError if a run or anything else is there already, or none can be made:
        before anything is loaded, and before TRL makes the folder by itself."""
        if self.recipe.exists():
            raise InputError(
                f"{self.path} holds a run already; add --resume to continue it, "
                "or give another --output"
            )
        # A run that was killed before it kept its recipe leaves these.
        left = {self.rollouts, self.lock}
        if self.path.is_file() or (self.path.is_dir() and set(self.path.rglob("*")) - left):
            raise InputError(f"{self.path} is not an empty folder; give another --output")
        path = self.path.absolute()
        above = next(folder for folder in (path, *path.parents) if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            what = "may not be written to" if above.is_dir() else "is a file"
            raise InputError(f"cannot make run folder {self.path}: {above} {what}")

    def create(self, recipe: str) -> None:
        """Make the folders and keep the recipe.

        Raises:
            InputError: the folder cannot be made, or holds a run.
        """
        make_folder(self.rollouts, f"run folder {self.path}")
        if self.recipe.exists():  # since it was found free
            self.require_free()
        with atomic_write(self.recipe) as temporary:
            temporary.write_text(recipe, encoding="utf-8")

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """The folder is this process's alone, until the block or the process ends.

        Yields:
            The lock's file descriptor, for a child process that is to hold it, too.

        Raises:
            InputError: another process trains here, or the folder cannot be made.
        """
        make_folder(self.path, f"run folder {self.path}")
        with self.lock.open("w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another process trains in {self.path}; wait for its end, or stop it"
                ) from None
            except OSError:  # a file system without locks, such as a mounted bucket
                pass
            yield lock.fileno()

    def all_checkpoints(self) -> list[Path]:
        """Those that were written to their end, the newest first: transformers writes its state
        last (`Trainer._save_checkpoint`), so where that can be read, the rest is there."""
        by_step = {}
        for path in self.checkpoints.glob("checkpoint-*"):
            with contextlib.suppress(OSError, ValueError):
                json.loads((path / "trainer_state.json").read_bytes())
                by_step[int(path.name.removeprefix("checkpoint-"))] = path
        return [by_step[step] for step in sorted(by_step, reverse=True)]

    def remove_leftovers(self) -> int:
        """Remove what a killed run was writing at that moment; how many bytes that was."""
        written = (self.recipe, self.metrics, self.before, self.summary, self.model)
        leftovers = [left for path in written for left in unfinished(path)]
        return remove_unfinished([*leftovers, *self.rollouts.glob(".step-*")])

    def append_metrics(self, metrics: dict[str, Any]) -> None:
        """Add one training step's line."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines of a run through TRL; a last line cut short by a crash is left out.

        Raises:
            InputError: a line is damaged.
        """
        lines = _lines(self.metrics) if self.metrics.exists() else []
        for number, line in enumerate(lines, start=1):
            if type(line.get("step")) is not int or type(line.get("seconds")) not in (int, float):
                raise InputError(
                    f"{self.metrics}, line {number}: step is {line.get('step')!r:.40} and seconds "
                    f"{line.get('seconds')!r:.40}; expected an integer and a number"
                )
        return lines

    def metrics_files(self) -> list[Path]:
        """The files of metrics that are there, in their order: each start of a run through verl has
        its own, and those of before a resumption are `metrics-1.jsonl` and so on."""
        earlier = sorted(self.path.glob("metrics-*.jsonl"), key=lambda p: (len(p.name), p.name))
        return [*earlier, *([self.metrics] if self.metrics.exists() else [])]

    def forget_after(self, step: int) -> None:
        """Drop the metrics and rollouts of training steps after `step`: they are run again.

        Raises:
            InputError: a file is damaged or lacks what was before; nothing is dropped.
        """
        kept = [line for line in self.read_metrics() if line["step"] <= step]
        if missing := set(range(1, step + 1)) - {line["step"] for line in kept}:
            raise InputError(
                f"{self.metrics} has no line of step {min(missing)}, and the checkpoint is of step "
                f"{step}; expected one of each step"
            )
        with atomic_write(self.metrics) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), "utf-8")
        for path in self.rollouts.glob("step-*.parquet"):
            number = path.stem.removeprefix("step-")
            if number.isdecimal() and int(number) > step:
                path.unlink()

    def read_before(self) -> dict[str, float]:
        """The held-out scores of the model before its training.

        Raises:
            InputError: the file is damaged.
        """
        scores = _object(self.before.read_bytes(), str(self.before))
        for name, score in scores.items():
            if type(score) not in (int, float):
                raise InputError(f"{self.before}: {name} is {score!r:.40}; expected a number")
        return scores

    def write_rollouts(self, step: int, rollouts: pa.Table) -> None:
        """Keep one training step's rollouts."""
        record.write(rollouts, self.rollouts / f"step-{step:05d}.parquet")


def write_json(path: Path, content: Any) -> None:
    """Write JSON, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def metrics_by_step(files: Iterable[Path]) -> dict[int, dict[str, Any]]:
    """What files of metrics, ktae's or verl's, say of each training step: by name. Of a step that
    was run again the last one counts; verl's lines have the metrics under `data`.

    Raises:
        InputError: a line is damaged.
    """
    return {
        line["step"]: line["data"] if isinstance(line.get("data"), dict) else line
        for path in files
        for line in _lines(path)
        if type(line.get("step")) is int
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    """One object a line; what follows the last line's end is left out."""
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_object(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: broken JSON: {one_line(error)}") from None
    if not isinstance(content, dict):
        raise InputError(f"{where}: a {type(content).__name__}; expected an object with metrics")
    return content
