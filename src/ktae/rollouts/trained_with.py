"""What a run was trained with, stored beside its rollouts in the file `ktae.json`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pydantic

from ktae._version import __version__
from ktae.errors import InputError, one_line
from ktae.estimators import Estimator, to_text
from ktae.files.atomic import make_folder, write_text
from ktae.files.inputs import read_input
from ktae.files.typed import read_mapping
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions

GYM = "reasoning-gym"
FILE = "ktae.json"
"""Its name, in the folder that holds the files of rollouts."""


class TrainedWith(pydantic.BaseModel, frozen=True, strict=True):
    """How the trainer of a folder's rollouts computed credit."""

    ktae: str = __version__
    estimator: str | None
    """As `--estimator` takes it; None: the rollout advantages alone. A function that no module
    holds is there as it prints itself, such as `Function(<lambda>)`."""
    correctness: str | list[str] | None
    """The column or columns that say what is correct, the first that is not null counts; None:
    what the engine calls the verdict, or else the reward."""
    threshold: float
    """Above it is correct."""
    model: str | None = None
    """A folder, a hub name, or `demo`; None: it is not known."""
    grader: str | None = None
    """The task's own grader, such as `demo`; None: none, or one of `ktae.grading`'s."""

    @classmethod
    def of(
        cls,
        estimator: Estimator | None,
        correctness: str | list[str] | None = None,
        threshold: float = 0.0,
    ) -> TrainedWith:
        """Those of a trainer that is about to write rollouts."""
        text = None if estimator is None else to_text(estimator)
        return cls(estimator=text, correctness=correctness, threshold=threshold)

    def write(self, folder: Path) -> None:
        """Store it in that folder, which is made if need be."""
        make_folder(folder)
        write_text(
            folder / FILE, self.model_dump_json(indent=2, exclude={"model", "grader"}) + "\n"
        )

    @classmethod
    def read(cls, folder: Path) -> TrainedWith | None:
        """What that folder's trainer has stored; None where nothing is stored."""
        file = folder / FILE
        try:
            return cls.model_validate_json(read_input(file)) if file.is_file() else None
        except pydantic.ValidationError as error:
            raise InputError(f"{file} is not what ktae writes: {one_line(error)}") from None

    @classmethod
    def of_recipe(cls, file: Path) -> TrainedWith:
        """What the recipe of a run folder says; what is no recipe says nothing of it.

        Raises:
            InputError: the file cannot be read, or holds no mapping.
        """
        content = read_mapping(file, "recipe")
        credit, model, task = content.get("credit"), content.get("model"), content.get("task")
        source = task.get("source", GYM) if isinstance(task, dict) else task or "demo"
        grader = content.get("reward") or (source if source in ("demo", GYM) else None)
        return cls(
            correctness=None,
            threshold=0.0,
            estimator=credit if credit is None or isinstance(credit, str) else json.dumps(credit),
            model=str(model["path"]) if isinstance(model, dict) and "path" in model else "demo",
            grader=None if grader is None else str(grader),
        )

    @classmethod
    def beside(cls, paths: Sequence[Path]) -> TrainedWith | None:
        """What is stored beside these files and folders, if all of them say the same."""
        stored = []
        for path in paths:
            folders = [path, path / "rollouts", path / "completions"] if path.is_dir() else []
            there = map(cls.read, [*folders, path.parent, path.parent.parent])
            stored.append(next((x for x in there if x is not None), None))
        return stored[0] if all(x == stored[0] for x in stored) else None

    def applied(self, options: ReadOptions, notes: Notes) -> ReadOptions:
        """The options with what the run was trained with, where a user says nothing else."""
        if {"reward", "correct"} & options.fields.keys():
            return options
        if options.correctness is None:
            names = ReadOptions(correctness=self.correctness).correctness_names
            options = dataclasses.replace(options, hinted=names)
        if options.threshold is None and self.threshold:
            options = dataclasses.replace(options, threshold=self.threshold)
            notes.add("trained", f"threshold {self.threshold:g}")
        return options
