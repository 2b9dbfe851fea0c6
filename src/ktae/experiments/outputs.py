"""Saved outputs of any model: rows of the rollout record, with what evaluation needs of each.

Files are read by `ktae.rollouts.readers`. An output needs a reference answer and no reward; one
that is graded has the record's columns `outcome`, `extracted` and `grader`.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ktae.arrays import MAX_TOKEN_ID
from ktae.errors import InputError
from ktae.experiments.benchmarks import BENCHMARKS, NAMES, UNNAMED, label_of
from ktae.files.text import path_text
from ktae.grading import GradingPool, Outcome, Task, Verdict
from ktae.rollouts import readers, record
from ktae.rollouts.answers import parse_answers
from ktae.rollouts.files import EmptyFileError, without_format
from ktae.rollouts.labels import note_rewards
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.tokens import load_tokenizer, tokenize
from ktae.rollouts.values import of_type

BENCHMARK_FIELDS = ("benchmark", "task_name", "data_source")
"""Fields that may name the benchmark."""
KEPT: dict[str, Callable[[Any], bool]] = {
    "benchmark": of_type(str),
    "reason": of_type(str),
    "finished": of_type(bool),
    "tokens": lambda value: type(value) is int and 0 <= value <= MAX_TOKEN_ID,
}
"""An output's fields in the record's column `extra`, and a check of their values: other tools have
fields of the same names."""
STORED = "stored"
"""The name of a grader that takes the file's own outcomes or rewards."""


class Output(NamedTuple):
    """One response of a model to one problem."""

    benchmark: str
    """`UNNAMED` where no file names one."""
    problem: str
    """Its label, such as its index in the benchmark; without one a digest of its prompt."""
    sample: int
    """The number of the response to this problem, from 0."""
    response: str
    answers: tuple[str, ...]
    prompt: str | None = None
    tokens: int | None = None
    """Length of the response."""
    finished: bool | None = None
    """Whether it ended by itself; None: unknown."""
    reward: float | None = None
    """The file's reward; None: it has none, or it is unknown."""
    stored: float | None = None
    """The file's correctness, 1.0 or 0.0: its verdict, or a reward above the threshold."""
    verdict: Verdict | None = None
    """None: not graded yet."""
    grader: str | None = None
    """The grader of `verdict`."""
    model: str | None = None
    """The model that the file names."""
    step: int | None = None
    """The training step, where the files hold several."""

    @property
    def label(self) -> str:
        """`aime24/7`, or `7` without a benchmark: the same in every file."""
        return self.problem if self.benchmark == UNNAMED else f"{self.benchmark}/{self.problem}"

    @property
    def group(self) -> str:
        """The label, and the step where there are several."""
        return self.label if self.step is None else f"{self.label} of step {self.step}"

    @property
    def correct(self) -> float | None:
        """1.0 or 0.0; None if it is not graded, or undecided."""
        return self.verdict.correct if self.verdict is not None else None


def read(
    path: Path,
    options: ReadOptions = DEFAULT,
    *,
    notes: Notes | None = None,
    partial: bool = True,
    benchmarks: Sequence[str] | None = None,
) -> list[Output]:
    """All outputs in a file, in a folder of files, or in folders that `ktae eval` has written.

    Args:
        path: the file or folder.
        options: how rows are read. With `pool_models`, outputs of several models are samples of
            one. A tokenizer counts lengths that are unknown.
        notes: takes notes on how the files were read.
        partial: whether problems and outputs may be missing (`check_complete`).
        benchmarks: read only these; None: all.

    Raises:
        InputError: the file cannot be read, a row has no response, answer or problem, a problem
            has two different answers, or something is missing that may not be.
    """
    notes = Notes(strict=True) if notes is None else notes
    evaluations = evaluations_in(path)
    join = options.join or bool(evaluations)
    options = dataclasses.replace(options, needs_reward=False, join=join)
    try:
        table = readers.read(evaluations or path, options, notes=notes)
    except EmptyFileError as error:
        raise EmptyFileError(f"{error}; {path} holds no outputs") from None
    if notes.counts["empty"] and not partial:
        raise InputError(
            f"{notes.names['empty'][0]}: an empty list of rollouts; expected one or more of each "
            "problem; --partial accepts that"
        )
    outputs = outputs_of(table, path, options, notes)
    models, notes.counts["pooled"] = len(by_model(outputs)), 0
    notes.counts["models"] = max(notes.counts["models"], models if models > 1 else 0)
    if benchmarks is not None:
        known = by_benchmark(outputs)
        if unknown := sorted(set(benchmarks) - set(known)):
            raise InputError(f"no {unknown[0]} in {path}; it holds {', '.join(known)}")
        outputs = [output for output in outputs if output.benchmark in benchmarks]
    if not partial:
        check_complete(outputs, str(path))
    if (tokenizer := options.tokenizer) is None:
        return outputs
    tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    counts = map(len, tokenize(tokenizer, [o.response for o in outputs if o.tokens is None]))
    return [o if o.tokens is not None else o._replace(tokens=next(counts)) for o in outputs]


def evaluations_in(path: Path) -> list[Path]:
    """The outputs of one evaluation, or of several in one folder, such as those of seeds."""
    return [*path.glob("outputs.parquet"), *sorted(path.glob("*/outputs.parquet"))]


def outputs_of(table: Any, where: Path, options: ReadOptions, notes: Notes) -> list[Output]:
    """The rows of a record as outputs.

    A file named after a benchmark is of that benchmark; each of several other files is a benchmark
    of its own.

    Args:
        table: a record whose rows have a response and a reference answer.
        where: the file or folder, for error messages.
        options: how the record was read.
        notes: takes whether several files ask the same problems.

    Raises:
        InputError: a problem has two different answers.
    """
    rows = table.select([x for x in table.column_names if x not in ("mask", "credit", "segments")])
    single = path_text(where) if where.is_file() else None
    places = [x["run"] or x["file"] or single for x in rows.select(["run", "file"]).to_pylist()]
    is_one_place = len(set(places)) == 1
    is_one_step = len(pc.unique(table["step"])) == 1  # the steps of two files are no difference
    samples: Counter[tuple[str | None, str]] = Counter()
    accepted: dict[str, tuple[str, ...]] = {}
    asked: dict[tuple[str, int | None], dict[str, object]] = defaultdict(dict)
    outputs = []
    for row, place in zip(rows.to_pylist(), places, strict=True):
        output = output_of(row, str(where))
        if output.benchmark == UNNAMED:
            name = without_format(Path(place).name) if place else ""
            benchmark = NAMES.get(name, UNNAMED if is_one_place else name)
            output = output._replace(benchmark=benchmark)
        output = output._replace(
            step=None if is_one_step else output.step,
            model=None if options.pool_models else output.model,
        )
        earlier = accepted.setdefault(output.group, output.answers)
        if set(output.answers) != set(earlier):
            raise InputError(
                f"{where}: problem {output.group} accepts {' or '.join(output.answers):.80}, in an "
                f"earlier row {' or '.join(earlier):.80}; expected the same in all of its rows"
            )
        asked[output.problem, output.step][output.group] = output.prompt, output.answers
        outputs.append(output._replace(sample=samples[output.model, output.group]))
        samples[output.model, output.group] += 1
    # Files of seeds ask the same under the same labels; files of benchmarks do not.
    repeated = [set(problems.values()) for problems in asked.values() if len(problems) > 1]
    notes.counts["apart"] = len(repeated) if all(len(same) == 1 for same in repeated) else 0
    return outputs


def output_of(row: dict[str, Any], where: str) -> Output:
    """A row of a record as an output; `where` is for error messages."""
    label = row["label"] or f"prompt {row['prompt_id']}"
    if row["response"] is None:
        raise InputError(f"{where}: the response of problem {label} is null; expected text")
    extra = json.loads(row["extra"] or "{}")
    kept = {name: extra.get(name) if fits(extra.get(name)) else None for name, fits in KEPT.items()}
    named = next((extra[x] for x in BENCHMARK_FIELDS if extra.get(x) is not None), None)
    benchmark, problem = label_of(named, label)
    verdict = None
    if row["outcome"] in list(Outcome) and row["grader"] is not None:
        verdict = Verdict(Outcome(row["outcome"]), row["extracted"], kept["reason"] or "")
    return Output(
        benchmark=benchmark,
        problem=problem,
        sample=0,
        response=row["response"],
        answers=parse_answers(row["answer"], f"{where}, problem {label}"),
        prompt=row["prompt"],
        tokens=kept["tokens"] if row["token_ids"] is None else len(row["token_ids"]),
        finished=kept["finished"],
        reward=row["reward"],
        stored=row["correct"],
        verdict=verdict,
        grader=row["grader"] if verdict else None,
        model=row["model"],
        step=row["step"],
    )


def by_model(outputs: Sequence[Output]) -> dict[str | None, list[Output]]:
    """The outputs of each model; None stands for outputs that name no model.

    If only one model is named, all outputs are taken to be its own.
    """
    names = {output.model for output in outputs if output.model is not None}
    if len(names) < 2:
        return {next(iter(names), None): list(outputs)}
    models: dict[str | None, list[Output]] = defaultdict(list)
    for output in outputs:
        models[output.model].append(output)
    return dict(models)


def by_benchmark(outputs: Iterable[Output]) -> dict[str, list[Output]]:
    """The outputs of each benchmark: the known ones in their order, then others as they come."""
    benchmarks: dict[str, list[Output]] = {name: [] for name in BENCHMARKS}
    for output in outputs:
        benchmarks.setdefault(output.benchmark, []).append(output)
    return {name: of_benchmark for name, of_benchmark in benchmarks.items() if of_benchmark}


def by_problem(outputs: Iterable[Output]) -> dict[str, list[Output]]:
    """The samples of each problem (`aime24/7`), in the order in which problems come."""
    problems: dict[str, list[Output]] = defaultdict(list)
    for output in outputs:
        problems[output.group].append(output)
    return dict(problems)


def check_complete(outputs: Sequence[Output], where: str) -> None:
    """Check that each model has all problems of a known benchmark, and as many outputs of each.

    Raises:
        InputError: problems are missing or too many, or one has another number of outputs.
    """
    models = by_model(outputs)
    for model, of_model in models.items():
        source = f"{where}, model {model}" if len(models) > 1 else where
        for name, of_benchmark in by_benchmark(of_model).items():
            problems = by_problem(of_benchmark)
            size = BENCHMARKS[name].size if name in BENCHMARKS else len(problems)
            if len(problems) != size:
                missing = [str(i) for i in range(size) if f"{name}/{i}" not in problems]
                listed = f" (missing: {', '.join(missing[:5])})" if len(missing) < size else ""
                raise InputError(
                    f"{source}: {len(problems)} problems of {name}; expected {size}{listed}; "
                    "--partial accepts that"
                )
            usual = statistics.mode(map(len, problems.values()))
            other = next((group for group, x in problems.items() if len(x) != usual), None)
            if other is not None:
                raise InputError(
                    f"{source}: problem {other} has {len(problems[other])} outputs, most have "
                    f"{usual}; is it there twice, or is one missing? --partial accepts that"
                )


def grade(
    pool: GradingPool,
    outputs: Sequence[Output],
    tell: Callable[[int, int], object] = lambda done, of: None,
) -> list[Output]:
    """The outputs with new verdicts; `tell` gets the number graded so far, and the total."""
    graded = []
    verdicts = pool.grade_all(Task(output.response, output.answers) for output in outputs)
    for output, verdict in zip(outputs, verdicts, strict=True):
        graded.append(output._replace(verdict=verdict, grader=pool.grader))
        tell(len(graded), len(outputs))
    return graded


def by_reward(outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the file's correctness as verdict; None where it has none."""
    verdicts = {1.0: Verdict(Outcome.CORRECT), 0.0: Verdict(Outcome.INCORRECT), None: None}
    return [o._replace(verdict=verdicts[o.stored], grader=STORED) for o in outputs]


def stored(outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the file's own verdicts, or else with its rewards as verdicts.

    Raises:
        InputError: an output has neither.
    """
    graded = [o if o.verdict else x for o, x in zip(outputs, by_reward(outputs), strict=True)]
    if missing := next((o for o in graded if o.verdict is None), None):
        raise InputError(f"grader stored: {missing.group} has no reward in the file")
    return graded


def note_stored(outputs: Sequence[Output], notes: Notes) -> None:
    """Note if it is unclear which of the file's rewards mean correct."""
    if rewards := [output.reward for output in outputs if output.reward is not None]:
        note_rewards(pa.table({"reward": rewards, "by_reward": [True] * len(rewards)}), notes)


def to_record(outputs: Sequence[Output], model: str | None = None) -> Any:
    """Graded outputs as a rollout record, the input of `ktae score` and `ktae compare`.

    `correct` and the reward are null where the verdict is undecided. `model` is the one that
    generated them; None: the one that each output names.
    """
    rows = []
    for output in outputs:
        fields = output._asdict() | (output.verdict._asdict() if output.verdict else {})
        row = {
            "group": output.label,
            "label": output.label,
            "answer": json.dumps(output.answers, ensure_ascii=False),
            "reward": output.correct,
            "correct": output.correct,
            "model": model or output.model,
            "extra": json.dumps({name: fields.get(name) for name in KEPT}, ensure_ascii=False),
        }
        rows.append(fields | row)
    return pa.Table.from_pylist(rows, schema=record.SCHEMA)
