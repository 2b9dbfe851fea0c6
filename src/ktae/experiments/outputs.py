"""Saved outputs of any model: the rollouts of a record, as grading and scores take them.

Files are read as everywhere (`ktae.rollouts.readers`); a rollout needs no reward here, and an
answer instead.
"""

from __future__ import annotations

import dataclasses
import json
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
"""What a field that names the benchmark may be called."""
KEPT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("benchmark", "reason"), of_type(str)),
    "sample": of_type(int),
    "tokens": lambda value: type(value) is int and 0 <= value <= MAX_TOKEN_ID,
    "finished": of_type(bool),
}
"""What of an output stands in the column `extra` of a record, and whether a value can be that."""

STORED = "stored"
"""In the place of a grader's name: what the file says."""


class Output(NamedTuple):
    """One response of a model to one problem."""

    benchmark: str
    """`UNNAMED` where no file names one."""
    problem: str
    """Its label, such as its index in the benchmark; without one a digest of its prompt."""
    sample: int
    """From 0: which of the responses to this problem."""
    response: str
    answers: tuple[str, ...]
    prompt: str | None = None
    tokens: int | None = None
    """Length of the response."""
    finished: bool | None = None
    """Whether it ended by itself; None: not known."""
    reward: float | None = None
    """What the file says; None: nothing, or that nobody knows."""
    stored: float | None = None
    """What that means: 1.0 or 0.0, a verdict or a reward above the threshold."""
    verdict: Verdict | None = None
    """None: not graded yet."""
    grader: str | None = None
    """Whose verdict that is; None: there is none."""
    model: str | None = None
    """Which model the file says it was."""
    step: int | None = None
    """The training step, where there are several."""

    @property
    def label(self) -> str:
        """`aime24/7`, and without a benchmark `7`: the same in every file."""
        return self.problem if self.benchmark == UNNAMED else f"{self.benchmark}/{self.problem}"

    @property
    def group(self) -> str:
        """The label, and the step where there are several."""
        return self.label if self.step is None else f"{self.label} of step {self.step}"

    @property
    def correct(self) -> float | None:
        """1.0 or 0.0; None where the verdict is undecided."""
        return self.verdict.correct if self.verdict is not None else None


def read(
    path: Path,
    options: ReadOptions = DEFAULT,
    *,
    notes: Notes | None = None,
    partial: bool = True,
    benchmarks: Sequence[str] | None = None,
) -> list[Output]:
    """All outputs in a file, in a folder of such, or in folders that `ktae eval` has written.

    Args:
        path: the file or folder.
        options: how rows are read. A rollout needs no reward. Outputs of several models are
            samples of one where `pool_models` is true. A tokenizer counts lengths that are not
            known.
        notes: on what the files were found to be.
        partial: whether problems and outputs may be missing (`check_complete`).
        benchmarks: the names of those that are read; None: all.

    Raises:
        InputError: the file cannot be read, a row has no response or no reference answer or does
            not say which problem it is about, one problem has two different answers, or something
            is missing that may not be.
    """
    notes = Notes(strict=True) if notes is None else notes
    graded = evaluations_in(path)
    options = dataclasses.replace(options, needs_reward=False, join=options.join or bool(graded))
    try:
        table = readers.read(graded or path, options, notes=notes)
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
    if options.tokenizer is None:
        return outputs
    named = options.tokenizer
    tokenizer = load_tokenizer(named) if isinstance(named, str) else named
    counts = map(len, tokenize(tokenizer, [o.response for o in outputs if o.tokens is None]))
    return [o if o.tokens is not None else o._replace(tokens=next(counts)) for o in outputs]


def evaluations_in(path: Path) -> list[Path]:
    """The outputs of one evaluation, or of several in one folder: the seeds of a recipe."""
    return [*path.glob("outputs.parquet"), *sorted(path.glob("*/outputs.parquet"))]


def outputs_of(table: Any, where: Path, options: ReadOptions, notes: Notes) -> list[Output]:
    """The rollouts of a record as outputs, with what only all of them together say.

    A file that is called as a benchmark is of that one. Of several others each is one by itself.

    Args:
        table: a record; each rollout has a response and a reference answer.
        where: the file or folder; it begins the errors.
        options: `pool_models` makes outputs of several models samples of one.
        notes: takes whether files ask the same.

    Raises:
        InputError: one problem has two different answers.
    """
    rows = table.select([x for x in table.column_names if x not in ("mask", "credit", "segments")])
    single = path_text(where) if where.is_file() else None
    places = [x["run"] or x["file"] or single for x in rows.select(["run", "file"]).to_pylist()]
    is_one_place = len(set(places)) == 1
    # Two files of a step each have their problems in common.
    is_one_step = len(pc.unique(table["step"])) == 1
    samples: Counter[tuple[str | None, str]] = Counter()
    accepted: dict[str, tuple[str, ...]] = {}
    alike: dict[tuple[str, int | None], dict[str, object]] = defaultdict(dict)
    outputs = []
    for row, place in zip(rows.to_pylist(), places, strict=True):
        name = without_format(Path(place).name) if place else ""
        of_place = NAMES.get(name, UNNAMED if is_one_place else name)
        output = output_of(row, str(where))
        output = output._replace(
            benchmark=of_place if output.benchmark == UNNAMED else output.benchmark,
            step=None if is_one_step else output.step,
            model=None if options.pool_models else output.model,
        )
        first_answers = accepted.setdefault(output.group, output.answers)
        if set(output.answers) != set(first_answers):
            here, before = (" or ".join(map(repr, x)) for x in (output.answers, first_answers))
            raise InputError(
                f"{where}: problem {output.group} accepts {here:.80}, in an earlier row "
                f"{before:.80}; expected the same answers in all rows of a problem"
            )
        alike[output.problem, output.step][output.group] = output.prompt, output.answers
        # Each model's samples are numbered by themselves.
        outputs.append(output._replace(sample=samples[output.model, output.group]))
        samples[output.model, output.group] += 1
    # Files of seeds ask the same under the same labels, and those of benchmarks something else.
    apart = [set(groups.values()) for groups in alike.values() if len(groups) > 1]
    notes.counts["apart"] = len(apart) if all(len(asked) == 1 for asked in apart) else 0
    return outputs


def output_of(row: dict[str, Any], where: str) -> Output:
    """A row of a record as an output."""
    label = row["label"] or f"prompt {row['prompt_id']}"
    if row["response"] is None:
        raise InputError(f"{where}: the response of problem {label} is null; expected text")
    extra = json.loads(row["extra"] or "{}")
    # Fields of other tools may have our names, but not our types.
    kept: dict[str, Any] = {
        name: extra[name] for name, fits in KEPT.items() if fits(extra.get(name))
    }
    named = next((extra[x] for x in BENCHMARK_FIELDS if extra.get(x) is not None), None)
    benchmark, problem = label_of(named, label)
    ids, verdict = row["token_ids"], None
    # Records of ktae before 0.2 have these in `extra`.
    outcome, extracted, grader = (
        extra.get(x) if row[x] is None else row[x] for x in ("outcome", "extracted", "grader")
    )
    if outcome in list(Outcome) and isinstance(grader, str):
        verdict = Verdict(Outcome(outcome), extracted, kept.get("reason", ""))
    return Output(
        benchmark=benchmark,
        problem=problem,
        sample=0,
        response=row["response"],
        answers=parse_answers(row["answer"], f"{where}, problem {label}"),
        prompt=row["prompt"],
        tokens=kept.get("tokens") if ids is None else len(ids),
        finished=kept.get("finished"),
        reward=row["reward"],
        stored=row["correct"],
        verdict=verdict,
        grader=grader if verdict else None,
        model=row["model"],
        step=row["step"],
    )


def by_model(outputs: Sequence[Output]) -> dict[str | None, list[Output]]:
    """The outputs of each model; None stands for outputs that name no model.

    Where one model alone is named, all outputs are taken for its.
    """
    names = {output.model for output in outputs if output.model is not None}
    if len(names) < 2:
        return {next(iter(names), None): list(outputs)}
    models: dict[str | None, list[Output]] = defaultdict(list)
    for output in outputs:
        models[output.model].append(output)
    return dict(models)


def by_benchmark(outputs: Iterable[Output]) -> dict[str, list[Output]]:
    """The outputs of each benchmark that occurs: the paper's order first, then as they come."""
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
    """Each benchmark that we know has all its problems, and all problems as many outputs.

    Of each model by itself, where there are several.

    Raises:
        InputError: it names a problem that is missing, too many, or has another number of outputs.
    """
    models = by_model(outputs)
    for model, of_model in models.items():
        source = f"{where}, model {model}" if len(models) > 1 else where
        for name, of_benchmark in by_benchmark(of_model).items():
            problems = by_problem(of_benchmark)
            size = BENCHMARKS[name].size if name in BENCHMARKS else len(problems)
            if len(problems) != size:
                missing = [str(i) for i in range(size) if f"{name}/{i}" not in problems]
                is_told = 0 < len(missing) < size
                listed = f" (missing: {', '.join(missing[:5])})" if is_told else ""
                raise InputError(
                    f"{source}: {len(problems)} problems of {name}; expected {size}{listed}; "
                    "--partial accepts that"
                )
            usual, _ = Counter(map(len, problems.values())).most_common(1)[0]
            for group, samples in problems.items():
                if len(samples) != usual:
                    raise InputError(
                        f"{source}: problem {group} has {len(samples)} outputs, most have {usual}; "
                        "is it there twice, or is one missing? --partial accepts that"
                    )


def grade(
    pool: GradingPool,
    outputs: Sequence[Output],
    tell: Callable[[int, int], object] = lambda done, of: None,
) -> list[Output]:
    """The outputs with new verdicts; `tell` is called with how many are done, of how many."""
    graded = []
    verdicts = pool.grade_all(Task(output.response, output.answers) for output in outputs)
    for output, verdict in zip(outputs, verdicts, strict=True):
        graded.append(output._replace(verdict=verdict, grader=pool.grader))
        tell(len(graded), len(outputs))
    return graded


def by_reward(outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the file's rewards as verdicts. None: it has none."""
    verdicts = {1.0: Verdict(Outcome.CORRECT), 0.0: Verdict(Outcome.INCORRECT), None: None}
    return [o._replace(verdict=verdicts[o.stored]) for o in outputs]


def stored(outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the file's own verdicts, or else with its rewards as such.

    Raises:
        InputError: an output has no reward.
    """
    said = [o._replace(grader=STORED) for o in by_reward(outputs)]
    graded = [o if o.verdict else other for o, other in zip(outputs, said, strict=True)]
    if missing := next((o for o in graded if o.verdict is None), None):
        raise InputError(f"grader stored: {missing.group} has no reward in the file")
    return graded


def note_stored(outputs: Sequence[Output], notes: Notes) -> None:
    """Note where the file's rewards leave open which of them mean correct."""
    if rewards := [output.reward for output in outputs if output.reward is not None]:
        note_rewards(pa.table({"reward": rewards, "by_reward": [True] * len(rewards)}), notes)


def to_record(outputs: Sequence[Output], model: str | None = None) -> Any:
    """Graded outputs as a rollout record, which `ktae score` and `ktae compare` read.

    `correct` and the reward are null where the verdict is undecided. `model` is the one that
    generated them; None: the one that each output names.
    """
    table = []
    for output in outputs:
        fields = output._asdict() | (output.verdict._asdict() if output.verdict else {})
        extra = {name: fields.get(name) for name in KEPT}
        row = {
            "group": output.label,
            "label": output.label,
            "answer": json.dumps(output.answers, ensure_ascii=False),
            "reward": output.correct,
            "correct": output.correct,
            "model": model or output.model,
            "extra": json.dumps(extra, ensure_ascii=False),
        }
        table.append(fields | row)
    return pa.Table.from_pylist(table, schema=record.SCHEMA)
