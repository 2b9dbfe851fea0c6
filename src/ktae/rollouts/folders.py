"""Which files of a folder may hold rollouts: all that can be read, at all depths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from ktae.errors import InputError
from ktae.rollouts import record
from ktae.rollouts.files import FORMATS, SUFFIXES, without_format

PACKED = tuple(f"{x}.{how}" for x in FORMATS for how in ("zst", "bz2", "xz", "lz4", "br", "zip"))
"""Files that are packed in a way that is not read: a folder's are named."""
SETTINGS = re.compile(
    r"(config|.*_config|tokenizer|.*_tokens|.*_tokens_map|vocab|.*\.index|trainer_state|ktae|state|"
    r"summary|before|dataset_info|dataset_dict|wandb-.*|manifest|run_manifest|.*settings)\.json|index\.jsonl|"
    r"metrics(-\d+)?\.jsonl|.*\.tokens\.parquet|(.*\D)?\.pt(\.gz)?"
)
"""Files of models, settings and measurements. slime calls its dumps as 3.pt, and other tools seldom
their weights."""
COPIES = {"live", "wandb", "tensorboard"}
"""Folders of a run whose files say again what others say."""
EVALUATION = re.compile(
    r"(^|[^a-z])eval_\d+\.pt(\.gz)?$|eval_rollouts\.jsonl|val_(data_)?step_?\d+|(^|/)eval/(.*/)?traces\.jsonl"
    r"|(^|/)(validation|val_data|val_dump)/\d+\.jsonl"
)
"""Evaluations that slime, NeMo-RL, rLLM, prime-rl and verl write beside their training."""


def choose_files(path: Path, evaluation: bool = False) -> tuple[list[Path], list[Path]]:
    """A folder's files that may hold rollouts, by step, or `path` itself; and those left alone.

    Looked at are all files at all depths that are not hidden and end as rollouts do. Left alone
    are: `SETTINGS`; what lies beside `rollouts/` in ktae's run folder; what `ktae score` has
    written, unless there is nothing else; .pt files beside others; evaluations beside training, or
    the other way round for `evaluation`; `COPIES`, such as prime-rl's `effective` beside its `all`;
    and files packed in a way that is not read.
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
            if name.endswith((*SUFFIXES, *PACKED)) and not name.startswith("."):
                is_other = is_beside or is_known_other(file) or name.endswith(PACKED)
                (others if is_other else readable).append(file)
    ends = {file: file.name.removeprefix(stem_of(file).name) for file in readable}
    readable.sort(key=lambda file: (_by_numbers(stem_of(file)), SUFFIXES.index(ends[file])))
    scored = {x for x in readable if record.CREDIT_KEY in record.metadata_of(x)}
    chosen = {*readable} - scored or {*readable}

    links = {file for file in readable if file.is_symlink()}
    real = {os.path.realpath(file) for file in readable if links and file not in links}

    def is_copy(file: Path) -> bool:
        """Whether it says again what another file of the run's folder says."""
        effective = [x for x in file.parents if x.name == "effective"]
        is_beside_all = any((x.parent / "all").is_dir() for x in effective)
        is_link = file in links and os.path.realpath(file) in real
        is_cache = file.name.startswith("cache-") and file.suffix == ".arrow"  # of data sets
        is_below = not COPIES.isdisjoint(file.relative_to(path).parts)
        return is_link or is_beside_all or is_cache or is_below

    # Each rule leaves something: where it would leave nothing, it says nothing.
    rules: tuple[Callable[[Path], bool], ...] = (
        lambda file: ".pt" in file.suffixes,
        is_copy,
        lambda file: of_evaluation(file.relative_to(path)) != evaluation,
    )
    for is_left in rules:
        chosen = {file for file in chosen if not is_left(file)} or chosen
    files = [file for file in readable if file in chosen]
    if not files:
        raise InputError(
            f"{path} holds no rollouts; expected files that end in {', '.join(FORMATS)}, or that "
            "followed by .gz"
        )
    return files, [file for file in readable if file not in chosen] + sorted(others)


def stem_of(file: Path) -> Path:
    """A file without its format: files of the same are the same rollouts, or a summary of them."""
    return file.with_name(without_format(file.name))


def _by_numbers(file: Path) -> list[tuple[int, str]]:
    """By step: 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(file))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def of_evaluation(file: Path) -> bool:
    """Whether a file's path says that an evaluation wrote it beside training."""
    return EVALUATION.search(file.as_posix()) is not None


def is_known_other(file: Path) -> bool:
    """Whether it is of a model, of settings or measurements, or prime-rl's notes on its traces."""
    return SETTINGS.fullmatch(file.name) is not None or file.parent.name == "annotations"
