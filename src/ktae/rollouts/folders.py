"""Which files of a folder may hold rollouts: all that can be read, at all depths."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ktae.errors import InputError
from ktae.rollouts import record
from ktae.rollouts.files import FORMATS, SUFFIXES, without_format

PACKED = tuple(f"{x}.{how}" for x in FORMATS for how in ("zst", "bz2", "xz", "lz4", "br", "zip"))
"""Files that are packed in a way that is not read, and inspect's: a folder's are named."""
SETTINGS = re.compile(
    r"(config|.*_config|tokenizer|.*_tokens|.*_tokens_map|vocab|.*\.index|trainer_state|ktae|"
    r"summary|before|wandb-.*|manifest|run_manifest|.*settings)\.json|index\.jsonl|"
    r"metrics(-\d+)?\.jsonl|.*\.tokens\.parquet|(.*\D)?\.pt(\.gz)?"
)
"""Files of models, settings and measurements. slime calls its dumps as 3.pt, and other tools seldom
their weights."""
COPIES = {"live", "wandb", "tensorboard"}
"""Folders of a run whose files say again what others say."""
EVALUATION = re.compile(
    r"(^|[^a-z])eval_\d+\.pt(\.gz)?$|eval_rollouts\.jsonl|val_data_step\d+|(^|/)eval/(.*/)?traces\.jsonl"
)
"""Evaluations that slime, NeMo-RL and prime-rl write beside their training."""


def choose_files(path: Path, evaluation: bool = False) -> tuple[list[Path], list[Path]]:
    """A folder's files that may hold rollouts, by step, or `path` itself; and those left alone.

    Looked at are all files at all depths that are not hidden and end as rollouts do. Left alone
    are: `SETTINGS`; what lies beside `rollouts/` in ktae's run folder; what `ktae score` has
    written, unless there is nothing else; of the same name in several formats all but one; .pt
    files beside others; evaluations beside training, or the other way round for `evaluation`;
    `COPIES`, such as prime-rl's `effective` beside its `all`; and files packed in a way that is
    not read.

    Raises:
        InputError: there is no such path, or the folder holds no such file.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a file or folder with rollouts")
    if not path.is_dir():
        return [path], []
    is_run = (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir()
    readable: list[Path] = []
    others: list[Path] = []
    for folder, below, names in os.walk(path):
        below[:] = [x for x in below if not x.startswith(".")]
        is_beside = is_run and path / "rollouts" not in (Path(folder), *Path(folder).parents)
        for name in names:
            file = Path(folder, name)
            is_other = is_beside or is_known_other(file) or name.endswith((*PACKED, ".eval"))
            if name.endswith((*SUFFIXES, *PACKED, ".eval")) and not name.startswith("."):
                (others if is_other else readable).append(file)
    # By step: 2.jsonl before 10.jsonl.
    readable.sort(
        key=lambda file: [
            (int(part), "") if part.isdecimal() else (-1, part)
            for part in re.split(r"(\d+)", str(file))
        ]
    )
    chosen: list[Path] = []
    scored: list[Path] = []
    stems: set[tuple[Path, str]] = set()
    # The format that is written first, and read best, comes first.
    for file in sorted(readable, key=lambda file: SUFFIXES.index(suffix_of(file))):
        stem = (file.parent, without_format(file.name))
        if record.CREDIT_KEY in record.metadata_of(file):
            scored.append(file)
        elif stem not in stems:
            chosen.append(file)
            stems.add(stem)
    # Each rule leaves something: where it would leave nothing, it says nothing.
    chosen = [file for file in chosen if ".pt" not in file.suffixes] or chosen
    chosen = [file for file in chosen if not is_copy(file.relative_to(path), path)] or chosen
    wanted = [x for x in chosen if of_evaluation(x.relative_to(path)) == evaluation]
    kept = set(wanted or chosen or scored)
    files = [file for file in readable if file in kept]
    if not files:
        raise InputError(
            f"{path} holds no rollouts; expected files that end in {', '.join(FORMATS)}, or that "
            "followed by .gz"
        )
    return files, [file for file in readable if file not in kept] + sorted(others)


def suffix_of(file: Path) -> str:
    """The end of its name that says its format."""
    return next(x for x in reversed(SUFFIXES) if file.name.endswith(x))


def of_evaluation(file: Path) -> bool:
    """Whether a file's path says that an evaluation wrote it beside training."""
    return EVALUATION.search(file.as_posix()) is not None


def is_known_other(file: Path) -> bool:
    """Whether it is of a model, of settings or measurements, or prime-rl's notes on its traces."""
    return SETTINGS.fullmatch(file.name) is not None or file.parent.name == "annotations"


def is_copy(file: Path, folder: Path) -> bool:
    """Whether it says again what another file of the run's folder says."""
    effective = [x for x in (folder / file).parents if x.name == "effective"]
    return bool(COPIES & set(file.parts)) or any((x.parent / "all").is_dir() for x in effective)
