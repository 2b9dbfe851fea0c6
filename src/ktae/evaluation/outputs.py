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
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from ktae.errors import InputError, quoted
from ktae.evaluation.benchmarks import BENCHMARKS, canonical, parse_answers
from ktae.evaluation.labels import Default, Numbering, label_of, step_of
from ktae.files.text import path_text, require_text
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record
from ktae.rollouts.files import without_format
from ktae.rollouts.labels import series
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.readers import files_in, plain_rows
from ktae.rollouts.suggestion import UnknownRowsError, template_for
from ktae.rollouts.tolerance import Tolerance

T = TypeVar("T")

FIELDS = {
    "response": ("response",),
    "prompt": ("prompt", "problem", "input", "question"),
    "answer": ("answer", "answers", "gts", "gt", "ground_truth", "solution"),
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


def read(
    path: Path,
    options: ReadOptions = DEFAULT,
    *,
    tolerance: Tolerance | None = None,
) -> list[Output]:
    """All outputs in a file, in a folder of such, or in a folder that `ktae eval` has written.

    Args:
        path: the file or folder.
        options: how rows are read. A rollout needs no reward. Outputs of several models are
            samples of one where `pool_models` is true.
        tolerance: for notes on what the files were found to be.

    Raises:
        InputError: the file cannot be read, or a row has no response or no reference answer.
    """
    options = dataclasses.replace(options, needs_reward=False)
    tolerance = tolerance or Tolerance(strict=True)
    own = path / "outputs.parquet"
    files = [own] if own.is_file() else files_in(path, tolerance)
    numbering, placed = Numbering(), []
    accepted: dict[tuple[str, str, str | None], tuple[str, ...]] = {}
    for file, default in zip(files, _defaults(files, path), strict=True):
        for row, where, schema in plain_rows(file, options, tolerance):
            if schema.by_prompt and "group" not in options.fields:
                row.pop("group", None)  # equal prompts are one problem, and numbered
            output, step = _output(row, numbering, default, where, options)
            key = output.benchmark, output.problem, step
            _require_one_answer(output, accepted.setdefault(key, output.answers), where)
            placed.append((output, step))
    if not placed:
        raise InputError(f"{path} is empty: it holds no outputs")
    return _with_steps(placed)


def _defaults(files: Sequence[Path], path: Path) -> list[Default]:
    """The benchmark of each file's rows that name none: it is called after its file.

    Files whose names differ in a number alone are parts of one benchmark, called after what their
    names have in common, or after the folder where all files are.
    """
    kinds = [series(file.name) for file in files]
    counts = Counter(kinds)
    if len(counts) == 1:
        name = files[0].name if len(files) == 1 else path.resolve().name
        name = path_text(name)
        first = name.partition(".")[0]  # aime24.base.jsonl
        known = canonical(first) in BENCHMARKS and canonical(first) == first
        return [Default(first if known else without_format(name), named=False)] * len(files)
    names = [
        file.name if counts[kind] == 1 else kind for file, kind in zip(files, kinds, strict=True)
    ]
    return [Default(without_format(path_text(name)), named=True) for name in names]


def _require_one_answer(output: Output, first: tuple[str, ...], where: str) -> None:
    """Rows of one problem accept the same answers, or its label is that of two problems."""
    if set(output.answers) != set(first):
        found, before = (" or ".join(map(repr, x)) for x in (output.answers, first))
        raise InputError(
            f"{where}: problem {output.group} accepts {found:.80}, in an earlier row "
            f"{before:.80}; expected the same answers in all rows of a problem"
        )


def by_model(outputs: Sequence[Output]) -> dict[str | None, list[int]]:
    """The places of each model's outputs; None stands for outputs that name no model.

    Where one model alone is named, all outputs are taken for its.
    """
    names = {output.model for output in outputs if output.model is not None}
    if len(names) < 2:
        return {next(iter(names), None): list(range(len(outputs)))}
    found: dict[str | None, list[int]] = {}
    for place, output in enumerate(outputs):
        found.setdefault(output.model, []).append(place)
    return found


def check_complete(outputs: Sequence[Output], where: str) -> None:
    """Each benchmark that we know has all its problems, and all problems as many outputs.

    Of each model by itself, where there are several.

    Raises:
        InputError: it names a problem that is missing, too many, or has another number of outputs.
    """
    models = by_model(outputs)
    for model, places in models.items():
        name = f"{where}, model {model}" if len(models) > 1 else where
        _check_complete([outputs[place] for place in places], name)


def _check_complete(outputs: Sequence[Output], where: str) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for output in outputs:
        counts[output.benchmark][output.problem] += 1
    hint = "--partial accepts that"
    for name, problems in counts.items():
        known = BENCHMARKS[name].size if name in BENCHMARKS else None
        if known is not None and len(problems) != known:
            missing = [str(i) for i in range(known) if str(i) not in problems]
            which = f" (missing: {', '.join(missing[:5])})" if 0 < len(missing) < known else ""
            raise InputError(
                f"{where}: {len(problems)} problems of {name}; expected {known}{which}; {hint}"
            )
        usual, _ = Counter(problems.values()).most_common(1)[0]
        for problem, count in problems.items():
            if count != usual:
                raise InputError(
                    f"{where}: problem {name}/{problem} has {count} outputs, most have {usual}; "
                    f"is it there twice, or is one missing? {hint}"
                )


def with_tokens(outputs: Sequence[Output], tokenizer: Any) -> list[Output]:
    """The same, with lengths counted by a tokenizer where they are not known."""
    from ktae.rollouts.tokens import tokenize

    missing = [i for i, output in enumerate(outputs) if output.tokens is None]
    counted = list(outputs)
    for i, ids in zip(
        missing, tokenize(tokenizer, [outputs[i].response for i in missing]), strict=True
    ):
        counted[i] = outputs[i]._replace(tokens=len(ids))
    return counted


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
        rows.append(
            {
                "group": output.group,
                "prompt": output.prompt,
                "response": output.response,
                "answer": json.dumps(output.answers, ensure_ascii=False),
                "reward": verdict.correct,
                "correct": verdict.correct,
                "model": model or output.model,
                "extra": json.dumps(extra, ensure_ascii=False),
            }
        )
    return pa.Table.from_pylist(rows, schema=record.SCHEMA)


def _output(
    row: dict[str, Any], numbering: Numbering, default: Default, where: str, options: ReadOptions
) -> tuple[Output, str | None]:
    """A row's output, and its training step."""
    extra = _extra(row, where)
    response = _message(_field(row, "response", where), f"{where}: response")
    if response is None:
        raise InputError(f"{where}: response is no text")
    prompt = _message(_field(row, "prompt", where, needed=False), f"{where}: prompt")
    answers = parse_answers(_field(row, "answer", where), where)
    recorded = _text(extra.get("benchmark"), f"{where}: extra.benchmark")
    benchmark = _field(row, "benchmark", where, needed=False)
    label = label_of(benchmark, row.get("group"), recorded, where)
    step = step_of(row.get("step"), where)
    model = None if options.pool_models else _text(row.get("model"), f"{where}: model")
    place = numbering.place(label, default, step, prompt, where, model)
    verdict, grader = _verdict(extra, where)
    output = Output(
        place.benchmark,
        place.problem,
        place.sample,
        response,
        answers,
        prompt,
        _length(row, extra),
        _of_type(bool, extra.get("finished")),
        _stored(row, where),
        verdict,
        grader,
        model,
        place.named,
        place.numbered or extra.get("numbered") is True,
        _text(extra.get("step"), f"{where}: extra.step"),
    )
    return output, step


def _length(row: dict[str, Any], extra: dict[str, Any]) -> int | None:
    """How many tokens the response has, where the file says or holds them."""
    ids = row.get("token_ids")
    return len(ids) if isinstance(ids, list) else _of_type(int, extra.get("tokens"))


def _with_steps(placed: Sequence[tuple[Output, str | None]]) -> list[Output]:
    """The outputs of a file; where it has several steps, the problems of each step are others.

    Two files of one step each have their problems in common, whichever steps these are.
    """
    if len({step for _, step in placed}) == 1:
        return [output for output, _ in placed]
    return [
        output
        if step is None
        else output._replace(problem=f"{output.problem} of step {step}", step=step)
        for output, step in placed
    ]


def _field(row: dict[str, Any], name: str, where: str, *, needed: bool = True) -> Any:
    for key in FIELDS[name]:
        if row.get(key) is not None:
            return row[key]
    if needed:
        found = f"{where}: no {' or '.join(FIELDS[name])}; its fields are {quoted(row)}"
        if name == "answer":
            raise UnknownRowsError(found, template_for(row, ("answer",)))
        raise InputError(found)
    return None


def _extra(row: dict[str, Any], where: str) -> dict[str, Any]:
    extra = row.get("extra")
    if not isinstance(extra, str):
        return {}
    try:
        content = json.loads(extra)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: extra is {extra!r:.60}; expected a JSON object") from None
    return content if isinstance(content, dict) else {}


def _text(value: object, where: str) -> str | None:
    """Text as it is, None for anything else."""
    return require_text(value, where) if isinstance(value, str) else None


def _message(value: object, where: str) -> str | None:
    """Text as it is; of a conversation the last message."""
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        value = value[-1].get("content")
    return _text(value, where)


def _of_type(kind: type[T], value: object) -> T | None:
    """`value` if it is what we would have written; `extra` may come from anywhere."""
    return value if type(value) is kind else None  # True is no int here


def _stored(row: dict[str, Any], where: str) -> float | None:
    """The file's verdict if it holds one, else its reward.

    A reward may be shaped (verl's overlong penalty), and a record that has no verdict for an
    undecided output (`correct` is null there) still has to have a reward.
    """
    if "correct" in row:
        return _reward(row["correct"], where)
    if "acc" in row and row.get("reward") is None:
        return _reward(row["acc"], where)
    return _reward(_field(row, "reward", where, needed=False), where)


def _reward(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float | Decimal):
        with contextlib.suppress(OverflowError, ValueError):  # a Decimal that signals
            number = float(value)
            if math.isnan(number):  # as pandas writes null
                return None
            if math.isfinite(number):
                return number
    raise InputError(f"{where}: reward is {value!r:.60}; expected a finite number")


def _verdict(extra: dict[str, Any], where: str) -> tuple[Verdict | None, str | None]:
    """The verdict that a record holds, and whose it is."""
    outcome = extra.get("outcome")
    if outcome not in list(Outcome):
        return None, None
    extracted, reason, grader = (
        _text(extra.get(name), f"{where}: extra.{name}")
        for name in ("extracted", "reason", "grader")
    )
    return Verdict(Outcome(outcome), extracted, reason or ""), grader


def by_benchmark(outputs: Iterable[Output]) -> list[str]:
    """The benchmarks that occur: the paper's order first, then as they come."""
    names = list(dict.fromkeys(output.benchmark for output in outputs))
    known = list(BENCHMARKS)
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))
