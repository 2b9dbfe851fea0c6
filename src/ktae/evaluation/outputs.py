"""Saved outputs of any model: one form for what the formats of other tools hold.

Read are: the JSON of the paper's authors (and of understand-r1-zero), which is a list of objects
`task_name`, `gt`, `model_output`, `reward`; TRL's completions (Parquet) and verl's rollout dumps
(JSON lines), provided they hold the reference answers; and our own records.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from ktae.errors import InputError
from ktae.evaluation.benchmarks import BENCHMARKS, parse_answers
from ktae.evaluation.labels import Numbering, label_of, step_of
from ktae.files.text import require_text
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record
from ktae.rollouts.dumps import is_padding
from ktae.rollouts.readers import iterate_rows, read_json

T = TypeVar("T")

FIELDS = {
    "response": ("response", "completion", "output", "model_output"),
    "prompt": ("prompt", "problem", "input", "question"),
    "answer": ("answer", "answers", "gts", "gt", "ground_truth", "solution"),
    "reward": ("reward", "score", "accuracy"),
    "benchmark": ("benchmark", "task_name", "data_source"),
}
"""What a field may be called, in the order in which the names are tried."""

VERDICTS = ("correct", "acc")
"""Fields that say whether an output is correct; they come before any reward."""

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
    """Whether the file says which benchmark; if not, `benchmark` is the file's name."""

    @property
    def group(self) -> str:
        """`aime24/7`, and without a benchmark that is named `7`: the same in every file."""
        return f"{self.benchmark}/{self.problem}" if self.named else self.problem


def read(path: Path) -> list[Output]:
    """All outputs in a file, or in a folder that `ktae eval` has written.

    Raises:
        InputError: the file cannot be read, or a row has no response or no reference answer.
    """
    if path.is_dir():
        path = path / "outputs.parquet"
        if not path.is_file():
            raise InputError(f"{path.parent} holds no outputs.parquet: no finished ktae eval")
    name = path.name.removesuffix(".gz")
    rows = _authors(path) if name.endswith(".json") else iterate_rows(path)
    numbering = Numbering(name.partition(".")[0])
    placed = [_output(row, numbering, where) for row, where in rows if not is_padding(row)]
    if not placed:
        raise InputError(f"{path} is empty: it holds no outputs")
    return _with_steps(placed)


def check_complete(outputs: Sequence[Output], where: str) -> None:
    """Each benchmark that we know has all its problems, and all problems as many outputs.

    Raises:
        InputError: it names a problem that is missing, too many, or has another number of outputs.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for output in outputs:
        counts[output.benchmark][output.problem] += 1
    hint = "; --partial accepts that"
    for name, problems in counts.items():
        known = BENCHMARKS[name].size if name in BENCHMARKS else None
        if known is not None and len(problems) != known:
            missing = [str(i) for i in range(known) if str(i) not in problems]
            which = f" (missing: {', '.join(missing[:5])})" if 0 < len(missing) < known else ""
            raise InputError(
                f"{where}: {len(problems)} problems of {name}; expected {known}{which}{hint}"
            )
        usual, _ = Counter(problems.values()).most_common(1)[0]
        for problem, count in problems.items():
            if count != usual:
                raise InputError(
                    f"{where}: problem {name}/{problem} has {count} outputs, most have {usual}: "
                    f"is it there twice, or is one missing?{hint}"
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


def _output(row: object, numbering: Numbering, where: str) -> tuple[Output, str | None]:
    """A row's output, and its training step."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: {row!r:.60}; expected an object with response and answer")
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
    place = numbering.place(label, step, prompt, where)
    verdict, grader = _verdict(extra, where)
    output = Output(
        place.benchmark,
        place.problem,
        place.sample,
        response,
        answers,
        prompt,
        _of_type(int, extra.get("tokens")),
        _of_type(bool, extra.get("finished")),
        _stored(row, where),
        verdict,
        grader,
        _text(row.get("model"), f"{where}: model"),
        place.named,
    )
    return output, step


def _with_steps(placed: Sequence[tuple[Output, str | None]]) -> list[Output]:
    """The outputs of a file; where it has several steps, the problems of each step are others.

    Two files of one step each have their problems in common, whichever steps these are.
    """
    if len({step for _, step in placed}) == 1:
        return [output for output, _ in placed]
    return [
        output if step is None else output._replace(problem=f"{output.problem} of step {step}")
        for output, step in placed
    ]


def _authors(path: Path) -> Iterator[tuple[object, str]]:
    """The authors' list, flattened: one row a response. Problems are numbered by their order."""
    content = read_json(path)
    if not isinstance(content, list):
        raise InputError(f"{path}: {type(content).__name__}; expected a list of outputs")
    numbers: Counter[str] = Counter()
    for number, entry in enumerate(content, start=1):
        where = f"{path}, entry {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("model_output"), list | str):
            found = f"fields {', '.join(entry)}" if isinstance(entry, dict) else repr(entry)
            raise InputError(
                f"{where}: {found:.200}; expected an object with model_output (text, or a list of "
                "texts), gt and task_name"
            )
        responses = _as_list(entry["model_output"])
        rewards = _as_list(entry.get("reward", [None] * len(responses)))
        golds = entry.get("gt", entry.get("answer"))
        golds = (
            golds
            if isinstance(golds, list) and len(golds) == len(responses)
            else [golds] * len(responses)
        )
        if len(rewards) != len(responses):
            raise InputError(f"{where}: {len(rewards)} rewards for {len(responses)} outputs")
        name = entry.get("task_name")
        for response, reward, gold in zip(responses, rewards, golds, strict=True):
            yield (
                {
                    "benchmark": name,
                    "group": numbers[str(name)],
                    "prompt": entry.get("prompt"),
                    "response": response,
                    "answer": gold,
                    "reward": reward,
                },
                where,
            )
        numbers[str(name)] += 1


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _field(row: dict[str, Any], name: str, where: str, *, needed: bool = True) -> Any:
    for key in FIELDS[name]:
        if row.get(key) is not None:
            return row[key]
    if needed:
        raise InputError(f"{where}: no {' or '.join(FIELDS[name])}; its fields are {list(row)}")
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
    for name in VERDICTS:
        if name in row:
            return _reward(row[name], where)
    return _reward(_field(row, "reward", where, needed=False), where)


def _reward(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        with contextlib.suppress(OverflowError):
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
