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
    r"(config|.*_config|tokenizer|.*_tokens|.*_tokens_map|vocab|.*\.index|trainer_state|state|"
    r"summary|before|dataset_info|dataset_dict|wandb-.*|manifest|run_manifest|.*settings)\.json|index\.jsonl|"
    r"metrics(-\d+)?\.jsonl|.*\.tokens\.parquet|(.*\D)?\.pt(\.gz)?"
)
"""Files of models, settings and measurements. slime calls its dumps as 3.pt, and other tools seldom
their weights."""
EVALUATION = re.compile(
    r"(^|[^a-z])eval_\d+\.pt(\.gz)?$|eval_rollouts\.jsonl|val_(data_)?step_?\d+|(^|/)eval/(.*/)?traces\.jsonl"
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
    files, others = list[Path](), dict[Path, str]()
    for folder, below, names in os.walk(path):
        below[:] = [x for x in below if not x.startswith(".")]
        is_beside = is_run and path / "rollouts" not in (Path(folder), *Path(folder).parents)
        for name in names:
            file = Path(folder, name)
            if name.startswith(".") or not name.endswith((*SUFFIXES, *PACKED)):
                continue
            if SETTINGS.fullmatch(name) or file.parent.name == "annotations":
                others[file] = "settings"
            elif is_beside or name.endswith(PACKED):
                others[file] = "files"
            else:
                files.append(file)
    files.sort(key=lambda file: (_by_numbers(stem_of(file)), _format(file)))
    for key, left in (
        ("files", [x for x in files if record.CREDIT_KEY in record.metadata_of(x)]),
        *(
            (key, [x for x in files if pattern.search(x.relative_to(path).as_posix())])
            for key, pattern in (("evaluations", EVALUATION), ("files", COPIES))
        ),
    ):
        if len(left) < len(files):  # where a rule would leave nothing, it says nothing
            others |= dict.fromkeys(left, key)
            files = [x for x in files if x not in others]
    others = {file: key for file, key in sorted(others.items()) if file.name != "tokenizer.json"}
    if not files:
        raise InputError(
            f"{path} holds no rollouts; expected files that end in {', '.join(FORMATS)}, or that "
            "followed by .gz"
        )
    return files, others


def stem_of(file: Path) -> Path:
    """A file without its format: files of the same are the same rollouts, or a summary of them."""
    return file.with_name(without_format(file.name))


def _format(file: Path) -> int:
    return SUFFIXES.index(file.name.removeprefix(stem_of(file).name))


def _by_numbers(file: Path) -> list[tuple[int, str]]:
    """By step: 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(file))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
