"""Generation that can be interrupted at any time: each finished batch is a file.

The folder of an evaluation:

    settings.json          what was asked for; a later run in this folder must ask for the same
    batches/00000.part     one finished batch, as lines of JSON
    outputs.parquet        all outputs with their outcomes, as a rollout record
    summary.json           the figures

Every batch has its own seed, so that a resumed evaluation equals one that was not interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from ktae.errors import InputError
from ktae.experiments import recipe as recipes
from ktae.experiments.benchmarks import BenchmarkProblem
from ktae.experiments.engines import Engine, Sampling
from ktae.experiments.outputs import SCHEMA
from ktae.experiments.run_folder import json_lines, json_object, write_json
from ktae.experiments.tasks import task_of
from ktae.experiments.templates import written_out
from ktae.files.atomic import make_folder, remove_unfinished, unfinished, write_text
from ktae.files.inputs import read_input
from ktae.grading import Verdict

WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
"""Files of weights, in the order in which transformers and vLLM look for them."""


class Questions(NamedTuple):
    """What a model is asked."""

    problems: Sequence[BenchmarkProblem] = ()
    longest: int = Sampling().max_new_tokens  # tokens of a response
    graders: Mapping[str, Callable[[pa.Table], list[Verdict]]] = MappingProxyType({})
    """The task's own grader by name, if it has one."""


def of_recipe(file: Path, overrides: Iterable[str]) -> Questions:
    """The held-out problems of a recipe's task, and its grader."""
    recipe = recipes.load(file, overrides)
    task = task_of(recipe)
    rows = task.held_out_rows()
    problems = [
        BenchmarkProblem(task.name, i, row.prompt, (row.answer,)) for i, row in enumerate(rows)
    ]
    references = {problem.group: row.reference for problem, row in zip(problems, rows, strict=True)}

    def grade(outputs: pa.Table) -> list[Verdict]:
        columns = (outputs[name].to_pylist() for name in ("response", "problem", "finished"))
        responses, asked, finished = columns
        return task.grade(responses, [references[x] for x in asked], [*map(bool, finished)])

    grader = recipe.reward or task.grader
    longest = recipe.rollout.max_response_length
    return Questions(problems, longest, {grader: grade} if grader else {})


def settings_of(
    model: str, engine: str, problems: Sequence[BenchmarkProblem], sampling: Sampling
) -> dict[str, Any]:
    """Everything that the outputs depend on, as JSON."""
    weights = ""
    if os.path.isdir(model):
        model = os.path.abspath(model)
        files = next(filter(None, (sorted(Path(model).glob(x)) for x in WEIGHTS)), [])
        weights = _digest([(x.name, x.stat().st_size, x.stat().st_mtime_ns) for x in files])
    return {
        "model": model,
        "weights": weights,
        "engine": engine,
        "benchmarks": list(dict.fromkeys(problem.benchmark for problem in problems)),
        "problems": _digest(list(problems)),
        **sampling._asdict(),
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


class EvaluationFolder:
    """Paths and files of one evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.batches = path / "batches"
        self.outputs = path / "outputs.parquet"
        self.summary = path / "summary.json"

    def claim(self, settings: dict[str, Any]) -> None:
        """Make the folder, or continue the evaluation in it, without what a killed one left; an
        InputError if it holds anything else."""
        # A killed evaluation may have begun to write its settings, and have no batch.
        begun = {self.batches, self.settings, *unfinished(self.settings)}
        if {*self.path.rglob("*")} - begun:
            if not self.settings.exists():
                raise InputError(f"{self.path} holds no evaluation; give another --output")
            earlier = json_object(read_input(self.settings), str(self.settings))
            if others := [key for key in settings if earlier.get(key) != settings[key]]:
                content = f"an evaluation with another {' and '.join(others)}"
                raise InputError(f"{self.path} holds {content}; give another --output")
        else:
            make_folder(self.batches, f"folder {self.path}")
            write_json(self.settings, settings)
        written = (self.settings, self.outputs, self.summary)
        half_written = [rest for path in written for rest in unfinished(path)]
        remove_unfinished([*half_written, *self.batches.glob(".*.part.*")])

    def batch(self, number: int) -> Path:
        """The file of a batch."""
        return self.batches / f"{number:05d}.part"


def generate_all(
    folder: EvaluationFolder,
    problems: Sequence[BenchmarkProblem],
    sampling: Sampling,
    load_engine: Callable[[], Engine],
    tell: Callable[[int, int], object],
) -> pa.Table:
    """The responses to every problem, as ungraded outputs; those on disk already are read.

    `load_engine` is called only if anything is left to generate, and `tell` after each batch with
    the number of problems done, and of all.
    """
    in_order = sorted(problems, key=lambda problem: -len(json.dumps(problem.prompt)))
    per_batch = max(1, sampling.batch_size // sampling.samples)
    engine: Engine | None = None
    answered: dict[str, dict[str, Any]] = {}
    for number, start in enumerate(range(0, len(in_order), per_batch)):
        path, batch = folder.batch(number), in_order[start : start + per_batch]
        if not path.exists():
            engine = engine or load_engine()
            prompts = [written_out(problem.prompt, engine.tokenizer) for problem in batch]
            answers = engine.generate(prompts, sampling, sampling.seed + number)
            lines = [
                {"group": x.group, "prompt": prompt, "samples": [y._asdict() for y in samples]}
                for x, prompt, samples in zip(batch, prompts, answers, strict=True)
            ]
            write_text(path, "".join(json.dumps(line) + "\n" for line in lines))
        answered |= {line["group"]: line for line in json_lines(path)}
        tell(start + len(batch), len(problems))
    rows = [
        {
            **dict.fromkeys(("group", "label", "problem"), problem.group),
            "benchmark": problem.benchmark,
            "answers": problem.answers,
            "prompt": answered[problem.group]["prompt"],
            "response": sample["text"],
            "tokens": sample["tokens"],
            "finished": sample["finished"],
        }
        for problem in problems
        for sample in answered[problem.group]["samples"]
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
