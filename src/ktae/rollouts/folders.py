"""Which files of a folder may hold rollouts: all that can be read, at all depths."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ktae.errors import InputError
from ktae.rollouts import record
from ktae.rollouts.files import FORMATS, SUFFIXES, without_format

PACKED = tuple(f"{x}.{how}" for x in FORMATS for how in ("zst", "bz2", "xz", "lz4", "br", "zip"))
"""Files that are packed in a way that is not read: a folder's are named."""
SETTINGS = re.compile(
    r"(^|/)((config|.*_config|tokenizer|.*_tokens|.*_tokens_map|vocab|.*\.index|trainer_state|state"
    r"|summary|before|dataset_info|dataset_dict|wandb-.*|manifest|run_manifest|.*settings)\.json"
    r"|index\.jsonl|metrics(-\d+)?\.jsonl|.*\.tokens\.parquet|annotations/[^/]*)$"
)
"""Files of models, settings and measurements."""
EVALUATION = re.compile(
    r"(^|[^a-z])eval_\d+\.jsonl|eval_rollouts\.jsonl|val_(data_)?step_?\d+|(^|/)eval/(.*/)?traces\.jsonl"
    r"|(^|/)(validation|val_data|val_dump)/\d+\.jsonl"
)
"""Evaluations that slime, NeMo-RL, rLLM, prime-rl and verl write beside their training."""
COPIES = re.compile(r"(^|/)(effective|live|wandb)/")
"""Folders of a run whose files say again what others say."""


def choose_files(path: Path) -> tuple[list[Path], dict[Path, str]]:
    """A folder's files that may hold rollouts, by step, or `path` itself; and those left alone,
    each with the note that says why.

    Looked at are all files at all depths that are not hidden and end as rollouts do. Left alone
    are: `SETTINGS`; what lies beside `rollouts/` in ktae's run folder; files packed in a way that
    is not read; and, beside others, what `ktae score` has written, and evaluations.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a file or folder with rollouts")
    if not path.is_dir():
        return [path], {}
    is_run = (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir()
    inside, others = dict[Path, str](), dict[Path, str]()
    for folder, below, names in os.walk(path):
        below[:] = [x for x in below if not x.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.endswith((*SUFFIXES, *PACKED)):
                file = Path(folder, name)
                inside[file] = file.relative_to(path).as_posix()
    for file, name in inside.items():
        if SETTINGS.search(name):
            others[file] = "settings"
        elif name.endswith(PACKED) or (is_run and not name.startswith("rollouts/")):
            others[file] = "files"
    files = sorted(inside.keys() - others.keys(), key=_by_step)
    for key, left in (
        ("files", [x for x in files if record.CREDIT_KEY in record.metadata_of(x)]),
        ("evaluations", [x for x in files if EVALUATION.search(inside[x])]),
        ("files", [x for x in files if COPIES.search(inside[x])]),
    ):
        if len(left) < len(files):  # where a rule would leave nothing, it says nothing
            others |= dict.fromkeys(left, key)
            files = [x for x in files if x not in others]
    if not files:
        raise InputError(f"{path} holds no rollouts; expected {', '.join(FORMATS)}")
    return files, {x: others[x] for x in sorted(others) if x.name != "tokenizer.json"}


def stem_of(file: Path) -> Path:
    """A file without its format: files of the same are the same rollouts, or a summary of them."""
    return file.with_name(without_format(file.name))


def _by_step(file: Path) -> tuple[list[tuple[int, str]], int]:
    """By numbers in the name, 2.jsonl before 10.jsonl, and then by the format."""
    stem = stem_of(file)
    parts = re.split(r"(\d+)", str(stem))
    numbers = [(int(x), "") if x.isdecimal() else (-1, x) for x in parts]
    return numbers, SUFFIXES.index(file.name.removeprefix(stem.name))
