"""What a run was trained with, stored beside its rollouts in the file `ktae.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ktae._version import __version__
from ktae.errors import InputError, reason
from ktae.estimators import Estimator, to_text
from ktae.files.atomic import atomic_write, make_folder

FILE = "ktae.json"
"""Its name, in the folder that holds the files of rollouts."""


class TrainedWith(NamedTuple):
    """How the trainer of a folder's rollouts computed credit."""

    estimator: str | None
    """As `--estimator` takes it; None: the rollout advantages alone. A function that no module
    holds is there as it prints itself, such as `Function(<lambda>)`."""
    correctness: str | list[str] | None
    """The column or columns that say what is correct, the first that is not null counts; None:
    what the engine calls the verdict, or else the reward."""
    threshold: float
    """Above it is correct."""

    @classmethod
    def of(
        cls,
        estimator: Estimator | None,
        correctness: str | list[str] | None = None,
        threshold: float = 0.0,
    ) -> TrainedWith:
        """Those of a trainer that is about to write rollouts."""
        return cls(None if estimator is None else to_text(estimator), correctness, threshold)

    def write(self, folder: Path) -> None:
        """Store it in that folder, which is made if need be."""
        make_folder(folder)
        with atomic_write(folder / FILE) as temporary:
            content = {"ktae": __version__} | self._asdict()
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> TrainedWith | None:
        """What that folder's trainer has stored; None where nothing is stored.

        Raises:
            InputError: the file cannot be read, or is not what `write` writes.
        """
        file = folder / FILE
        if not file.is_file():
            return None
        try:
            content = json.loads(file.read_bytes())
            stored = cls(*(content[name] for name in cls._fields))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file} cannot be read: {reason(error)}") from None
        except (KeyError, TypeError):
            raise InputError(
                f"{file} is not what a trainer of ktae writes; expected {', '.join(cls._fields)}"
            ) from None
        names = stored.correctness if isinstance(stored.correctness, list) else [stored.correctness]
        texts = [name for name in (stored.estimator, *names) if name is not None]
        if not all(isinstance(text, str) for text in texts) or (
            type(stored.threshold) not in (int, float)
        ):
            raise InputError(f"{file} has values of other types than a trainer of ktae writes")
        return stored

    @classmethod
    def beside(cls, paths: Sequence[Path]) -> TrainedWith | None:
        """What is stored beside these files and folders, if all of them say the same."""
        stored = []
        for path in paths:
            folders = [path, path / "rollouts", path / "completions"] if path.is_dir() else []
            there = map(cls.read, [*folders, path.parent, path.parent.parent])
            stored.append(next((x for x in there if x is not None), None))
        return stored[0] if all(x == stored[0] for x in stored) else None
