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
NUMBERED = re.compile(r"\d\.pt(\.gz)?$")
"""What slime calls its dumps, one a step, and other tools seldom their weights."""
OF_MODELS = re.compile(
    r"(config|.*_config|tokenizer|.*_tokens|.*_tokens_map|vocab|.*\.index|trainer_state|ktae|"
    r"summary|before|results_.*|wandb-.*|manifest|run_manifest|.*settings)\.json"
)
"""JSON files of models and settings, which no one takes for rollouts."""
HELPERS = {"annotations", "live", "checkpoints", "wandb", "tensorboard", "model"}
"""Folders of a run that never hold rollouts."""


EVALUATION = re.compile(
    r"(^|[^a-z])eval_\d+\.pt(\.gz)?$|eval_rollouts\.jsonl|val_data_step\d+|(^|/)eval/(.*/)?traces\.jsonl"
)
"""Evaluations that slime, NeMo-RL and prime-rl write beside their training."""


def choose_files(path: Path) -> tuple[list[Path], list[Path]]:
    """A folder's files that may hold rollouts, by step, or `path` itself; and those left alone.

    Of ktae's run folder these are the files in `rollouts/`, of TRL's output folder those in
    `completions/`. Of any other folder they are all files at all depths that can be read and are
    not hidden. Left alone are: what `ktae score` has written, unless there is nothing else; of the
    same name in several formats all but one; .pt files beside others; evaluations beside training;
    prime-rl's `effective` beside its `all`; and files packed in a way that is not read.

    Raises:
        InputError: there is no such path, or the folder holds no such file.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a file or folder with rollouts")
    if not path.is_dir():
        return [path], []
    place = path
    if (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir():
        place = path / "rollouts"
    elif (path / "completions").is_dir():
        place = path / "completions"
    readable: list[Path] = []
    others: list[Path] = []
    for folder, below, names in os.walk(place):
        below[:] = [x for x in below if not x.startswith(".") and x not in HELPERS]
        if "all" in below and "effective" in below:
            below.remove("effective")  # prime-rl's rollouts of `all` that it trained on
        for name in names:
            if name.startswith(".") or OF_MODELS.fullmatch(name) or name == "index.jsonl":
                continue
            if name.endswith((*PACKED, ".eval")):
                others.append(Path(folder, name))
            elif (
                name.endswith(SUFFIXES)
                and not name.endswith(".tokens.parquet")
                and (".pt" not in name or NUMBERED.search(name))
            ):
                readable.append(Path(folder, name))
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
    training = [x for x in chosen if not EVALUATION.search(x.relative_to(path).as_posix())]
    kept = set(training or chosen or scored)
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
