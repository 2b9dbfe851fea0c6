"""Generation that can be cut off at any time: each finished batch is a file.

The folder of an evaluation:

    settings.json          what was asked for; another run in this folder must ask for the same
    batches/00000.part     one finished batch, as lines of JSON, written beside and then renamed
    outputs.parquet        all outputs with their verdicts, as a rollout record
    summary.json           the figures

Every batch has its own seed, so that a resumed evaluation equals one that was not interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.experiments.benchmarks import BenchmarkProblem
from ktae.experiments.engines import Engine, Sampling
from ktae.experiments.outputs import Output
from ktae.experiments.run_folder import write_json
from ktae.experiments.templates import prompt_of, written_out
from ktae.files.atomic import make_folder, remove_unfinished, unfinished, write_text
from ktae.files.inputs import open_input, read_input
from ktae.rollouts.metrics import json_lines, json_object

WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
"""Files of weights, in the order in which transformers and vLLM look: each only without those
before it."""


class Job(NamedTuple):
    """A model, and what it is asked."""

    model: str
    """A folder, or the name of a hub's model."""
    engine: str
    """A name in `ENGINES`."""
    template: str
    """A name in `TEMPLATES`; not used for problems with messages of their own."""
    problems: Sequence[BenchmarkProblem]
    """All benchmarks, one after the other."""
    sampling: Sampling
    """How responses are drawn; a problem's samples are never split into two batches."""

    def settings(self) -> dict[str, Any]:
        """Everything that the outputs depend on, as JSON.

        Raises:
            InputError: the model is a folder without weights.
        """
        # Other texts or answers under the same names would be another evaluation.
        digest = hashlib.sha256(json.dumps(list(self.problems)).encode()).hexdigest()
        which = {"model": self.model}
        if os.path.isdir(self.model):  # by its path, from wherever it was given, and its weights
            path = os.path.abspath(self.model)
            which = {"model": path, "weights": weights_digest(Path(path))}
        return {
            **which,
            "engine": self.engine,
            "template": self.template,
            "benchmarks": list(dict.fromkeys(problem.benchmark for problem in self.problems)),
            "problems": f"{len(self.problems)}, sha256 {digest[:16]}",
            **self.sampling._asdict(),
        }


def weights_digest(folder: Path) -> str:
    """16 hexadecimal digits of a model's weights: those of a model trained again are others.

    Raises:
        InputError: the folder holds no weights.
    """
    # The files that would be loaded, and not what else a trainer left beside them.
    files = next(filter(None, (sorted(folder.glob(x)) for x in WEIGHTS)), None)
    if files is None:
        raise InputError(f"no weights ({' or '.join(WEIGHTS)}) in {folder}")
    digest = hashlib.sha256()
    for file in files:
        with open_input(file) as content:
            hashlib.file_digest(content, lambda: digest)  # goes on with it
    return digest.hexdigest()[:16]


class EvaluationFolder:
    """Paths and files of one evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.batches = path / "batches"
        self.outputs = path / "outputs.parquet"
        self.summary = path / "summary.json"

    def claim(self, settings: dict[str, Any]) -> None:
        """Make the folder, or take up the evaluation that is in it, without what a killed one was
        writing.

        Raises:
            InputError: it cannot be made, holds something else, or an evaluation with other
                settings.
        """
        # A killed evaluation may have made its folders and have begun to write its settings.
        begun = {self.batches, self.settings, *unfinished(self.settings)}
        is_taken = bool({*self.path.rglob("*")} - begun)
        if self.path.is_file() or (is_taken and not self.settings.exists()):
            raise InputError(f"{self.path} is not an empty folder; give another --output")
        before = (
            json_object(read_input(self.settings), str(self.settings)) if is_taken else settings
        )
        for key, value in settings.items():
            if before.get(key) != value:
                raise InputError(
                    f"{self.path} holds an evaluation with {key} = {before.get(key)!r:.200}, "
                    f"not {value!r:.200}; give another --output"
                )
        if not is_taken:  # nothing is lost where a first try failed before anything was generated
            make_folder(self.batches, f"folder {self.path}")
            write_json(self.settings, settings)
        written = (self.settings, self.outputs, self.summary)
        half_written = [rest for path in written for rest in unfinished(path)]
        remove_unfinished([*half_written, *self.batches.glob(".*.part.*")])

    def batch(self, number: int) -> Path:
        """Where a batch is, or will be."""
        return self.batches / f"{number:05d}.part"


def generate_all(
    folder: EvaluationFolder,
    job: Job,
    load_engine: Callable[[], Engine],
    tell: Callable[[int, int], object],
) -> list[Output]:
    """Every problem's responses; those that are on disk already are read.

    Args:
        folder: claimed.
        job: what is asked.
        load_engine: called only if anything is left to generate.
        tell: called after each batch with the problems done, and the problems in all.
    """
    problems, sampling = job.problems, job.sampling
    in_order = sorted(problems, key=lambda problem: -len(problem.text))  # little padding
    per_batch = max(1, sampling.batch_size // sampling.samples)
    engine: Engine | None = None
    rows: dict[str, dict[str, Any]] = {}
    for number, start in enumerate(range(0, len(in_order), per_batch)):
        path, batch = folder.batch(number), in_order[start : start + per_batch]
        # A batch is a whole file or none: what a killed run was writing has another name.
        if not path.exists():
            engine = engine or load_engine()
            prompts = [
                prompt_of(job.template, problem.text, engine.tokenizer)
                if problem.messages is None
                else written_out(problem.messages, engine.tokenizer)
                for problem in batch
            ]
            answers = engine.generate(prompts, sampling, sampling.seed + number)
            lines = [
                {
                    "group": problem.group,
                    "prompt": prompt,
                    "samples": [x._asdict() for x in samples],
                }
                for problem, prompt, samples in zip(batch, prompts, answers, strict=True)
            ]
            write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
        rows |= {row["group"]: row for row in json_lines(path)}
        tell(start + len(batch), len(problems))
    return [
        Output(
            benchmark=problem.benchmark,
            problem=str(problem.number),
            sample=i,
            response=sample["text"],
            answers=problem.answers,
            prompt=rows[problem.group]["prompt"],
            tokens=sample["tokens"],
            finished=sample["finished"],
        )
        for problem in problems
        for i, sample in enumerate(rows[problem.group]["samples"])
    ]
