"""The run folder: the files of one training."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pydantic
from typing_extensions import TypedDict

from ktae.errors import InputError, passed_on
from ktae.files.atomic import make_folder, remove_unfinished, unfinished, write_text
from ktae.files.inputs import read_input
from ktae.rollouts import record


class _Step(TypedDict):
    step: int
    seconds: float


STEP = pydantic.TypeAdapter(_Step)
SCORES = pydantic.TypeAdapter(dict[str, float])


class RunFolder:
    """Paths and files of one run.

    `recipe.yaml` the whole recipe; `tokenizer/`; `metrics.jsonl` one line a training step;
    `rollouts/` one Parquet file a training step; `checkpoints/`; `before.json` and `summary.json`
    the held-out scores; `model/` the trained policy.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / ".lock"
        self.recipe = path / "recipe.yaml"
        self.metrics = path / "metrics.jsonl"
        self.rollouts = path / "rollouts"
        self.checkpoints = path / "checkpoints"
        self.before = path / "before.json"
        self.summary = path / "summary.json"
        self.model = path / "model"
        self.tokenizer = path / "tokenizer"

    def require_free(self) -> None:
        """Raise an InputError if the folder holds anything but a run that failed before its first
        training step ended."""
        if self.recipe.exists():
            files = [*self.checkpoints.glob("*/*"), *self.rollouts.glob("*step-*")]
            files += [self.summary, *metrics_files(self.path)]
        else:
            files = [path for path in self.path.rglob("*") if path.is_file() and path != self.lock]
        if self.path.is_file() or any(path.exists() for path in files):
            raise InputError(
                f"{self.path} is not an empty folder; add --resume to continue a run in it, or "
                "give another --output"
            )

    def create(self, recipe: str) -> None:
        """Make the folders and store the recipe."""
        self.require_free()
        make_folder(self.rollouts, f"run folder {self.path}")
        self.before.unlink(missing_ok=True)  # of a run that failed before its first step
        write_text(self.recipe, recipe)

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Keep other processes from training here, until the block or the process ends; yields the
        lock's file descriptor, for a child process that has to hold it, too."""
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

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint of TRL, whose state is written last."""
        by_step = {}
        for path in self.checkpoints.glob("checkpoint-*"):
            with contextlib.suppress(InputError, ValueError):
                json.loads(read_input(path / "trainer_state.json"))
                by_step[int(path.name.removeprefix("checkpoint-"))] = path
        return by_step[max(by_step)] if by_step else None

    def append_metrics(self, metrics: dict[str, Any]) -> None:
        """Add one training step's line."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All lines of a run through TRL; a last line cut short by a crash is left out."""
        lines = json_lines(self.metrics) if self.metrics.exists() else []
        for number, line in enumerate(lines, start=1):
            with passed_on(f"{self.metrics}, line {number}", pydantic.ValidationError):
                STEP.validate_python(line, strict=True)
        return lines

    def forget_after(self, step: int) -> None:
        """Drop the metrics and rollouts after a training step, which will run again, and what a
        killed run was writing; nothing if a file is damaged or lacks an earlier step."""
        kept = [line for line in self.read_metrics() if line["step"] <= step]
        if missing := set(range(1, step + 1)) - {line["step"] for line in kept}:
            raise InputError(
                f"{self.metrics} has no line of step {min(missing)}, and the checkpoint is of step "
                f"{step}; expected one of each step"
            )
        written = (self.recipe, self.metrics, self.before, self.summary, self.model)
        leftovers = [rest for path in written for rest in unfinished(path)]
        remove_unfinished([*leftovers, *self.rollouts.glob(".step-*")])
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in kept))
        for path in self.rollouts.glob("step-*.parquet"):
            number = path.stem.removeprefix("step-")
            if number.isdecimal() and int(number) > step:
                path.unlink()

    def read_scores(self, file: Path) -> dict[str, float]:
        """The held-out scores of the model before its training (`before`) or after (`summary`)."""
        content = json_object(read_input(file), str(file))
        with passed_on(f"{file} holds no scores", pydantic.ValidationError, KeyError):
            scores = SCORES.validate_python(content.get("after", content))
            scores["greedy_accuracy"]
        return scores

    def write_rollouts(self, step: int, rollouts: pa.Table) -> None:
        """Write one training step's rollouts."""
        record.write(rollouts, self.rollouts / f"step-{step:05d}.parquet")


def write_json(path: Path, content: Any) -> None:
    """Write JSON, atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def metrics_files(run: Path) -> list[Path]:
    """A run folder's files of metrics, in their order: each start of a run through verl has its
    own, and those from before a resumption are `metrics-1.jsonl` and so on."""
    earlier = sorted(run.glob("metrics-*.jsonl"), key=lambda path: (len(path.name), path.name))
    return [*earlier, *run.glob("metrics.jsonl")]


def json_lines(path: Path) -> list[dict[str, Any]]:
    """One object a line; what follows the last line's end was cut short, and is left out."""
    lines = read_input(path).split(b"\n")[:-1]
    return [json_object(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1)]


def json_object(content: bytes, where: str) -> dict[str, Any]:
    """The JSON object that a file or a line holds.

    Raises:
        InputError: it is broken, or another value; `where` begins the message.
    """
    with passed_on(f"{where}: broken JSON", ValueError, RecursionError):
        value = json.loads(content)
    if not isinstance(value, dict):
        raise InputError(f"{where}: a {type(value).__name__}; expected a JSON object")
    return value
