"""Saved outputs of any model: rollouts with their reference answers, as grading needs them.

Files are read as everywhere (`ktae.rollouts.readers`), so the schemas are the same; a rollout needs
no reward here, and an answer instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ktae.errors import InputError, quoted
from ktae.evaluation.benchmarks import BENCHMARKS, canonical, label_of, parse_answers
from ktae.files.text import path_text, require_text
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record
from ktae.rollouts.files import without_format
from ktae.rollouts.labels import run_of
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.readers import Reader, files_in
from ktae.rollouts.rows import as_label, is_null, with_texts
from ktae.rollouts.unknown import unknown_row

FIELDS = {
    "response": ("response",),
    "prompt": ("prompt",),
    "answer": (
        *("answer", "answers", "gts", "gt", "ground_truth", "expected_answer", "gold_answer"),
        "solution",
    ),
    "reward": ("reward", "score", "accuracy"),
    "benchmark": ("benchmark", "task_name", "data_source"),
}
"""What a field may be called, in the order in which the names are tried."""

STORED = "stored"
"""In the place of a grader's name: what the file says."""


class Output(NamedTuple):
    """One response of a model to one problem."""

    benchmark: str
    problem: str
    """Which problem of the benchmark: its index where it is known."""
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
    verdict: Verdict | None = None
    """Where the file is a record that `ktae eval` has graded."""
    grader: str | None = None
    """Whose verdict that is; None: there is none, or the file does not say."""
    model: str | None = None
    """Which model the file says it was."""
    named: bool = True
    """Whether the benchmark tells problems apart; if not, it is the file's name."""
    numbered: bool = False
    """Whether the file names no problem, and `problem` is the number of its prompt in this file."""
    step: str | None = None
    """The training step, where the file has several; `problem` ends with it."""

    @property
    def group(self) -> str:
        """`aime24/7`, and without a benchmark that is named `7`: the same in every file."""
        return f"{self.benchmark}/{self.problem}" if self.named else self.problem


def read(path: Path, options: ReadOptions = DEFAULT, *, notes: Notes | None = None) -> list[Output]:
    """All outputs in a file, in a folder of such, or in folders that `ktae eval` has written.

    Problems that no row labels are numbered by the first appearance of their prompts.

    Args:
        path: the file or folder.
        options: how rows are read. A rollout needs no reward. Outputs of several models are
            samples of one where `pool_models` is true.
        notes: on what the files were found to be.

    Raises:
        InputError: the file cannot be read, a row has no response or no reference answer or does
            not say which problem it is about, or one problem has two different answers.
    """
    notes = Notes(strict=True) if notes is None else notes
    # Of one evaluation, or of several in one folder: the seeds of a recipe.
    graded = [*path.glob("outputs.parquet"), *sorted(path.glob("*/outputs.parquet"))]
    join = options.join or bool(graded)
    options = dataclasses.replace(options, needs_reward=False, join=join)
    files = graded or files_in(path, notes, options.evaluation)
    reader = Reader(options, notes)
    read_ones: list[_Read] = []
    reader.of_folder(path, files, lambda _, file: read_ones.extend(_read(reader, file, options)))
    kinds = {x.is_evaluation for x in read_ones}
    if len(kinds) > 1:
        left_out = "training" if options.evaluation else "evaluation"
        notes.add(left_out, n=sum(x.is_evaluation != options.evaluation for x in read_ones))
        read_ones = [x for x in read_ones if x.is_evaluation == options.evaluation]
    where_of: dict[tuple[str, str | None], Path] = {}
    for x in read_ones:
        problem = x.output.problem if x.is_labelled else x.output.prompt
        if problem and where_of.setdefault((problem, x.step), x.place) != x.place:
            notes.add("apart")
    defaults = _defaults(list(dict.fromkeys(x.place for x in read_ones)), files, path)
    numbers: dict[tuple[str | None, str], dict[str, int]] = defaultdict(dict)
    samples: Counter[tuple[str | None, ...]] = Counter()
    accepted: dict[tuple[str, str, str | None], tuple[str, ...]] = {}
    outputs: list[Output] = []
    for place, output, step, is_labelled, where, _ in read_ones:
        default, is_named = defaults[place]
        if output.benchmark == "":
            output = output._replace(benchmark=canonical(default))
        output = output._replace(named=output.named or is_named)
        if not is_labelled:
            if output.prompt is None:
                raise InputError(f"{where}: neither group nor prompt: which problem is it?")
            number = numbers[step, output.benchmark]
            problem = str(number.setdefault(output.prompt, len(number)))
            output = output._replace(problem=problem, numbered=True)
        key = (output.benchmark, output.problem, step)
        first = accepted.setdefault(key, output.answers)
        if set(output.answers) != set(first):
            here, before = (" or ".join(map(repr, x)) for x in (output.answers, first))
            raise InputError(
                f"{where}: problem {output.group} accepts {here:.80}, in an earlier row "
                f"{before:.80}; expected the same answers in all rows of a problem"
            )
        # each model's samples are numbered by themselves
        outputs.append(output._replace(sample=samples[(output.model, *key)]))
        samples[(output.model, *key)] += 1
    if not outputs:
        raise InputError(f"{path} is empty: it holds no outputs")
    steps = [x.step for x in read_ones]
    if len(set(steps)) == 1:  # two files of a step each have their problems in common
        return outputs
    return [
        o if step is None else o._replace(problem=f"{o.problem} of step {step}", step=step)
        for o, step in zip(outputs, steps, strict=True)
    ]


class _Read(NamedTuple):
    """An output as its row has it, and what the other files say about it."""

    place: Path
    """Its file, or the run that its file is of."""
    output: Output
    step: str | None
    is_labelled: bool
    """Whether the row names its problem."""
    where: str
    is_evaluation: bool


def _read(reader: Reader, file: Path, options: ReadOptions) -> Iterator[_Read]:
    for row, where, schema in reader.rows(file):
        if schema.by_prompt and "group" not in options.fields:
            row.pop("group", None)  # equal prompts are one problem, and numbered
        row = with_texts(row, where, reader.notes)
        is_evaluation = row.pop("is_evaluation", False) is True
        output = _output(row, where)
        if options.pool_models:
            output = output._replace(model=None)
        step = row.get("step")
        step = None if is_null(step) else require_text(str(as_label(step)), f"{where}: step")
        place = Path() if options.join else run_of(file, schema)
        yield _Read(place, output, step, not is_null(row.get("group")), where, is_evaluation)


def _defaults(
    places: Sequence[Path], files: Sequence[Path], path: Path
) -> dict[Path, tuple[str, bool]]:
    """The benchmark of each place's rows that name none, called after its file; and whether that
    tells problems apart which other files label alike.

    The files of a run, and those that are joined, are one benchmark, called after the folder.
    """
    if len(places) == 1:
        name = path_text(files[0].name if len(files) == 1 else path.resolve().name)
        first = name.partition(".")[0]  # aime24.base.jsonl
        is_known = canonical(first) in BENCHMARKS and canonical(first) == first
        return {places[0]: (first if is_known else without_format(name), False)}
    return {place: (without_format(path_text(place.name)), True) for place in places}


def _output(row: dict[str, Any], where: str) -> Output:
    """A row's output by itself; benchmark and problem are empty where the row does not say."""
    extra = row.get("extra")
    try:
        extra = json.loads(extra) if isinstance(extra, str) else None
    except (ValueError, RecursionError):
        raise InputError(f"{where}: extra is {extra!r:.60}; expected a JSON object") from None
    # Another tool's `extra` may have fields of our names, but not of our types.
    extra = extra if isinstance(extra, dict) else {}
    tokens, finished = extra.get("tokens"), extra.get("finished")

    def text(value: object, name: str) -> str | None:
        """Text as it is, of a conversation the last message, None for anything else."""
        if isinstance(value, list) and value and isinstance(value[-1], dict):
            value = value[-1].get("content")
        return require_text(value, f"{where}: {name}") if isinstance(value, str) else None

    response = text(_field(row, "response", where), "response")
    if response is None:
        raise InputError(f"{where}: response is no text")
    recorded, extracted, reason, grader, step = (
        text(extra.get(name), f"extra.{name}")
        for name in ("benchmark", "extracted", "reason", "grader", "step")
    )
    label = label_of(_field(row, "benchmark"), row.get("group"), recorded, where)
    is_graded = extra.get("outcome") in list(Outcome)
    if isinstance(row.get("token_ids"), list):
        tokens = len(row["token_ids"])
    return Output(
        benchmark=label.benchmark or "",
        problem=label.problem or "",
        sample=0,
        response=response,
        answers=parse_answers(_field(row, "answer", where), where),
        prompt=text(_field(row, "prompt"), "prompt"),
        tokens=tokens if type(tokens) is int else None,
        finished=finished if isinstance(finished, bool) else None,
        reward=_stored(row, where),
        verdict=Verdict(Outcome(extra["outcome"]), extracted, reason or "") if is_graded else None,
        grader=grader if is_graded else None,
        model=text(row.get("model"), "model"),
        named=label.named,
        numbered=extra.get("numbered") is True,
        step=step,
    )


def _field(row: dict[str, Any], name: str, needed_at: str | None = None) -> Any:
    """The row's value of a field by any of its names; None where it has none."""
    for key in FIELDS[name]:
        if row.get(key) is not None:
            return row[key]
    if needed_at is not None:
        message = f"no {' or '.join(FIELDS[name])}; its fields are {quoted(row)}"
        raise unknown_row(row, needed_at, message, (name,))
    return None


def _stored(row: dict[str, Any], where: str) -> float | None:
    """The file's verdict if it holds one, else its reward.

    A reward may be shaped (verl's overlong penalty), and a record that has no verdict for an
    undecided output (`correct` is null there) still has to have a reward.
    """
    if "correct" in row:
        value = row["correct"]
    elif "acc" in row and row.get("reward") is None:
        value = row["acc"]
    else:
        value = _field(row, "reward")
    if is_null(value):
        return None
    if isinstance(value, bool | int | float | Decimal):
        with contextlib.suppress(OverflowError, ValueError):  # a Decimal that signals
            number = float(value)
            if math.isnan(number):
                return None
            if math.isfinite(number):
                return number
    raise InputError(f"{where}: reward is {value!r:.60}; expected a finite number")


def by_model(outputs: Sequence[Output]) -> dict[str | None, list[int]]:
    """The places of each model's outputs; None stands for outputs that name no model.

    Where one model alone is named, all outputs are taken for its.
    """
    names = {output.model for output in outputs if output.model is not None}
    if len(names) < 2:
        return {next(iter(names), None): list(range(len(outputs)))}
    places: dict[str | None, list[int]] = defaultdict(list)
    for place, output in enumerate(outputs):
        places[output.model].append(place)
    return dict(places)


def by_benchmark(outputs: Iterable[Output]) -> list[str]:
    """The benchmarks that occur: the paper's order first, then as they come."""
    names = list(dict.fromkeys(output.benchmark for output in outputs))
    known = list(BENCHMARKS)
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def check_complete(outputs: Sequence[Output], where: str) -> None:
    """Each benchmark that we know has all its problems, and all problems as many outputs.

    Of each model by itself, where there are several.

    Raises:
        InputError: it names a problem that is missing, too many, or has another number of outputs.
    """
    models = by_model(outputs)
    for model, places in models.items():
        source = f"{where}, model {model}" if len(models) > 1 else where
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for place in places:
            counts[outputs[place].benchmark][outputs[place].problem] += 1
        for name, problems in counts.items():
            expected = BENCHMARKS[name].size if name in BENCHMARKS else len(problems)
            if len(problems) != expected:
                missing = [str(i) for i in range(expected) if str(i) not in problems]
                listed = f" (missing: {', '.join(missing[:5])})" if len(missing) < expected else ""
                raise InputError(
                    f"{source}: {len(problems)} problems of {name}; expected {expected}"
                    f"{listed if missing else ''}; --partial accepts that"
                )
            usual, _ = Counter(problems.values()).most_common(1)[0]
            for problem, count in problems.items():
                if count != usual:
                    raise InputError(
                        f"{source}: problem {name}/{problem} has {count} outputs, most have "
                        f"{usual}; is it there twice, or is one missing? --partial accepts that"
                    )


def with_tokens(outputs: Sequence[Output], tokenizer: Any) -> list[Output]:
    """The same, with lengths counted by a tokenizer where they are not known."""
    from ktae.rollouts.tokens import tokenize

    texts = [output.response for output in outputs if output.tokens is None]
    lengths = map(len, tokenize(tokenizer, texts))
    return [o if o.tokens is not None else o._replace(tokens=next(lengths)) for o in outputs]


def to_record(
    outputs: Sequence[Output],
    verdicts: Sequence[Verdict],
    model: str | None,
    grader: str | None = None,
) -> Any:
    """Graded outputs as a rollout record, which `ktae score` and `ktae compare` read.

    `correct` and the reward are null where the verdict is undecided.

    Args:
        outputs: of one evaluation.
        verdicts: as many.
        model: that generated them; None: the one that each output names.
        grader: whose verdicts they are; `STORED`: the one that each output names, if it does.
    """
    rows = []
    for output, verdict in zip(outputs, verdicts, strict=True):
        extra = {
            "benchmark": output.benchmark,
            "grader": (output.grader or STORED) if grader == STORED else grader,
            "sample": output.sample,
            "tokens": output.tokens,
            "finished": output.finished,
            "numbered": output.numbered,
            "step": output.step,
            "outcome": verdict.outcome.value,
            "extracted": verdict.extracted,
            "reason": verdict.reason,
        }
        row = {
            "group": output.group,
            "prompt": output.prompt,
            "response": output.response,
            "answer": json.dumps(output.answers, ensure_ascii=False),
            "reward": verdict.correct,
            "correct": verdict.correct,
            "model": model or output.model,
            "extra": json.dumps(extra, ensure_ascii=False),
        }
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=record.SCHEMA)
