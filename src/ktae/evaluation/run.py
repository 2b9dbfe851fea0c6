"""Generation that can be cut off at any time: each finished batch is a file.

The folder of an evaluation:

    settings.json          what was asked for; another run in this folder must ask for the same
    batches/00000.jsonl    one finished batch, written beside and then renamed
    outputs.parquet        all outputs with their verdicts, as a rollout record
    results.json           the figures

Every batch has its own seed, so that a resumed evaluation equals one that was not interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError
from ktae.evaluation.benchmarks import BenchmarkProblem
from ktae.evaluation.engines import Engine, Sampling
from ktae.evaluation.outputs import Output
from ktae.evaluation.templates import prompt_of, written_out
from ktae.files.atomic import atomic_write, make_folder, remove_unfinished, unfinished
from ktae.runs import write_json

Progress = Callable[[int, int], None]
"""Called with the problems done and the problems in all."""


WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
"""Files of weights, in the order in which transformers and vLLM look: each only without those
before it."""


class EvaluationFolder:
    """Paths and files of one evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.batches = path / "batches"
        self.outputs = path / "outputs.parquet"
        self.results = path / "results.json"

    def claim(self, settings: dict[str, Any]) -> None:
        """Make the folder, or take up the evaluation that is in it.

        Raises:
            InputError: it cannot be made, holds something else, or an evaluation with other
                settings.
        """
        # A killed evaluation may have made its folders and have begun to write its settings.
        begun = {self.batches, *unfinished(self.settings)}
        there = [x for x in self.path.rglob("*") if x not in begun]
        # Nothing is lost where a first try failed before anything was generated.
        if self.settings in there and len(there) > 1:
            self._require_same(settings)
            return
        if self.path.is_file() or (there and self.settings not in there):
            raise InputError(f"{self.path} is not an empty folder; give another --output")
        make_folder(self.batches, f"folder {self.path}")
        write_json(self.settings, settings)

    def remove_leftovers(self) -> int:
        """Remove what a killed evaluation was writing at that moment; how many bytes that was."""
        written = (self.settings, self.outputs, self.results)
        half_written = [rest for path in written for rest in unfinished(path)]
        return remove_unfinished([*half_written, *self.batches.glob(".*.jsonl.*")])

    def batch(self, number: int) -> Path:
        """Where a batch is, or will be."""
        return self.batches / f"{number:05d}.jsonl"

    def _require_same(self, settings: dict[str, Any]) -> None:
        try:
            before = json.loads(self.settings.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {self.settings}: {error}") from None
        if not isinstance(before, dict):
            raise InputError(f"{self.settings} holds {before!r:.80}; expected settings")
        for key, value in settings.items():
            if before.get(key) == value:
                continue
            difference = f"with {key} = {before.get(key)!r:.200}, not {value!r:.200}"
            if key == "weights" and key in before:
                difference = (
                    f"of {settings['model']}, whose weights have changed since "
                    f"({before[key]} then, {value} now)"
                )
            raise InputError(f"{self.path} holds an evaluation {difference}; give another --output")


def settings_of(
    model: str,
    engine: str,
    template: str,
    problems: Sequence[BenchmarkProblem],
    sampling: Sampling,
) -> dict[str, Any]:
    """Everything that the outputs depend on, as JSON.

    Raises:
        InputError: `model` is a folder without weights.
    """
    # Other texts or answers under the same names would be another evaluation.
    digest = hashlib.sha256(json.dumps(list(problems)).encode()).hexdigest()
    which = {"model": model}
    if os.path.isdir(model):  # by its path, from wherever it was given, and its weights
        which = {"model": os.path.abspath(model), "weights": weights_digest(Path(model))}
    return {
        **which,
        "engine": engine,
        "template": template,
        "benchmarks": list(dict.fromkeys(problem.benchmark for problem in problems)),
        "problems": f"{len(problems)}, sha256 {digest[:16]}",
        **sampling._asdict(),
    }


def weights_digest(folder: Path) -> str:
    """16 hexadecimal digits of a model's weights: those of a model trained again are others.

    Raises:
        InputError: the folder holds no weights, or they cannot be read.
    """
    # The files that would be loaded, and not what else a trainer left beside them.
    files = next(filter(None, (sorted(folder.glob(x)) for x in WEIGHTS)), None)
    if files is None:
        raise InputError(f"no weights ({' or '.join(WEIGHTS)}) in {folder}")
    digest = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as content:
                hashlib.file_digest(content, lambda: digest)  # goes on with it
        except OSError as error:
            raise InputError(f"cannot read {file}: {error.strerror}") from None
    return digest.hexdigest()[:16]


def generate_all(
    folder: EvaluationFolder,
    load_engine: Callable[[], Engine],
    problems: Sequence[BenchmarkProblem],
    template: str,
    sampling: Sampling,
    progress: Progress,
) -> list[Output]:
    """Every problem's responses; those that are on disk already are read.

    Args:
        folder: claimed.
        load_engine: called only if anything is left to generate.
        problems: all benchmarks, one after the other.
        template: a name in `TEMPLATES`; not used for a problem with messages of its own.
        sampling: how responses are drawn; a problem's samples are never split into two batches.
        progress: called after each batch.

    Raises:
        InputError: a batch on disk does not belong to this evaluation.
    """
    order = sorted(range(len(problems)), key=lambda i: -len(problems[i].text))  # little padding
    per_batch = max(1, sampling.batch_size // sampling.samples)
    chunks = [order[i : i + per_batch] for i in range(0, len(order), per_batch)]
    engine: Engine | None = None
    outputs: list[list[Output]] = [[] for _ in problems]
    done = 0
    for number, chunk in enumerate(chunks):
        path = folder.batch(number)
        batch = [problems[i] for i in chunk]
        # A batch is a whole file or none: what a killed run was writing has another name.
        if not path.exists():
            engine = engine or load_engine()
            prompts = [
                prompt_of(template, problem.text, engine.tokenizer)
                if problem.messages is None
                else written_out(problem.messages, engine.tokenizer)
                for problem in batch
            ]
            answers = engine.generate(prompts, sampling, sampling.seed + number)
            with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
                for problem, prompt, samples in zip(batch, prompts, answers, strict=True):
                    texts = [sample._asdict() for sample in samples]
                    row = {"group": problem.group, "prompt": prompt, "samples": texts}
                    file.write(json.dumps(row) + "\n")
        for i, responses in zip(chunk, _read_batch(path, batch), strict=True):
            outputs[i] = responses
        done += len(chunk)
        progress(done, len(problems))
    return [output for responses in outputs for output in responses]


def _read_batch(path: Path, batch: Sequence[BenchmarkProblem]) -> list[list[Output]]:
    """Of each problem of a batch its responses."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if [row["group"] for row in rows] != [problem.group for problem in batch]:
            raise InputError(f"{path} holds other problems than this evaluation's batch")
        return [
            [
                Output(
                    benchmark=problem.benchmark,
                    problem=str(problem.number),
                    sample=i,
                    response=sample["text"],
                    answers=problem.answers,
                    prompt=row["prompt"],
                    tokens=sample["tokens"],
                    finished=sample["finished"],
                )
                for i, sample in enumerate(row["samples"])
            ]
            for problem, row in zip(batch, rows, strict=True)
        ]
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a batch of ktae eval: {error}; delete it") from None
