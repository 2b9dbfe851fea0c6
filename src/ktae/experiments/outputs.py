"""Saved outputs of any model: the rollout record, with the columns that evaluation needs.

Files are read by `ktae.rollouts.readers`. An output needs a reference answer and no reward; one
that is graded has an `outcome`, what was `extracted`, and a `grader`.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktae.arrays import MAX_TOKEN_ID
from ktae.errors import InputError
from ktae.experiments.benchmarks import BENCHMARKS, NAMES, UNNAMED, label_of
from ktae.files.text import path_text
from ktae.grading import GradingPool, Task, Verdict
from ktae.report.proposal import proposing
from ktae.rollouts import readers, record
from ktae.rollouts.files import without_format
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.tokens import load_tokenizer, tokenize
from ktae.rollouts.values import KINDS, parse_answers

COLUMNS = {
    "benchmark": pa.string(),  # `UNNAMED` where no file names one
    "problem": pa.string(),  # the record's label, and the step where there are several
    "answers": pa.list_(pa.string()),  # the accepted ones
    "tokens": pa.int64(),  # length of the response; null: unknown
    "finished": pa.bool_(),  # whether it ended by itself; null: unknown
    "reason": pa.string(),  # the grader's
}
"""The columns that outputs have beside those of the record."""
SCHEMA = pa.schema([*record.SCHEMA, *(pa.field(*column) for column in COLUMNS.items())])
BENCHMARK_FIELDS = ("benchmark", "task_name", "data_source")
"""Fields that may name the benchmark."""
KEPT: dict[str, Callable[[Any], bool]] = {
    "benchmark": KINDS["text"],
    "reason": KINDS["text"],
    "finished": lambda value: isinstance(value, bool),
    "tokens": lambda value: type(value) is int and 0 <= value <= MAX_TOKEN_ID,
}
"""Columns that a written record has in `extra`, and a check of their values: other tools have
fields of the same names."""


def read(
    path: Path,
    options: ReadOptions = DEFAULT,
    *,
    notes: Notes | None = None,
    partial: bool = True,
    benchmarks: Sequence[str] | None = None,
) -> pa.Table:
    """All outputs in a file, in a folder of files, or in folders that `ktae eval` has written.

    Args:
        path: the file or folder.
        options: how rows are read. With `pool_models`, outputs of several models are samples of
            one. A tokenizer counts lengths that are unknown.
        notes: takes notes on how the files were read.
        partial: whether problems and outputs may be missing (`check_complete`).
        benchmarks: read only these; None: all.

    Returns:
        A table with the columns of `SCHEMA`, one row a response.

    Raises:
        InputError: the file cannot be read or is of several models, a row has no response, answer
            or problem, a problem has two different answers, or something is missing that may not
            be.
    """
    notes = Notes(strict=True) if notes is None else notes
    # One evaluation of `ktae eval`, or several in a folder, such as those of seeds
    evaluations = [*path.glob("outputs.parquet"), *sorted(path.glob("*/outputs.parquet"))]
    join = options.join or bool(evaluations)
    options = dataclasses.replace(options, needs_reward=False, join=join)
    with proposing(path, options):
        table = readers.read(evaluations or path, options, notes=notes)
    if notes.counts["empty"] and not partial:
        raise InputError(
            f"{notes.names['empty'][0]}: an empty list of rollouts; expected one or more of each "
            "problem; --partial accepts that"
        )
    table = with_problems(table, path)
    if options.pool_models:
        table = with_columns(table, model=[None] * len(table))
    if len(models := {*table["model"].to_pylist()} - {None}) > 1:
        raise InputError(
            f"{path} holds outputs of {len(models)} models ({', '.join(sorted(models)):.200}); "
            "expected those of one: --pool-models takes them as samples of one"
        )
    if benchmarks is not None:
        known = list(dict.fromkeys(table["benchmark"].to_pylist()))
        if unknown := sorted(set(benchmarks) - set(known)):
            raise InputError(f"no {unknown[0]} in {path}; it holds {', '.join(known)}")
        table = table.filter(pc.is_in(table["benchmark"], pa.array(benchmarks)))
    if not partial:
        check_complete(table, str(path))
    if (tokenizer := options.tokenizer) is None:
        return table
    tokenizer = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    tokens = table["tokens"].to_pylist()
    unknown_rows = [i for i, n in enumerate(tokens) if n is None]
    texts = table["response"].take(unknown_rows).to_pylist()
    for i, ids in zip(unknown_rows, tokenize(tokenizer, texts), strict=True):
        tokens[i] = len(ids)
    return with_columns(table, tokens=tokens)


def with_columns(table: pa.Table, **columns: Sequence[Any]) -> pa.Table:
    """The table with columns of `SCHEMA` added or replaced."""
    for name, values in columns.items():
        field = SCHEMA.field(name)
        others = table.select([x for x in table.column_names if x != name])
        table = others.append_column(field, pa.array(values, field.type))
    return table


def with_problems(table: pa.Table, where: Path) -> pa.Table:
    """A record with the columns of `COLUMNS`: which problem each row is about, and what is known
    of its response. Two prompts of one label are two problems, as they are two groups.

    A file named after a benchmark is of that benchmark; each of several other files is a benchmark
    of its own.
    """
    single = path_text(where) if where.is_file() else None
    places = [x["run"] or x["file"] or single for x in table.select(["run", "file"]).to_pylist()]
    is_one_place = len(set(places)) == 1
    is_one_step = len(pc.unique(table["step"])) == 1  # the steps of two files are no difference
    lengths = pc.list_value_length(table["token_ids"]).to_pylist()
    names = ["label", "prompt_id", "step", "response", "answer", "extra"]
    accepted: dict[str, tuple[str, ...]] = {}
    prompts, rows = defaultdict[str, set[str | None]](set), list[dict[str, Any]]()
    for row, place, length in zip(table.select(names).to_pylist(), places, lengths, strict=True):
        label = row["label"] or f"prompt {row['prompt_id']}"
        if row["response"] is None:
            raise InputError(f"{where}: the response of problem {label} is null; expected text")
        extra = json.loads(row["extra"] or "{}")
        kept = {name: extra.get(name) for name, fits in KEPT.items() if fits(extra.get(name))}
        answers = parse_answers(row["answer"], f"{where}, problem {label}")
        named = next((extra[x] for x in BENCHMARK_FIELDS if extra.get(x) is not None), None)
        benchmark, label = label_of(named, label)
        if benchmark == UNNAMED:
            name = without_format(Path(place).name) if place else ""
            benchmark = NAMES.get(name, UNNAMED if is_one_place else name)
        label = label if benchmark == UNNAMED else f"{benchmark}/{label}"
        problem = label if is_one_step else f"{label} of step {row['step']}"
        prompts[problem].add(row["prompt_id"])
        columns: dict[str, Any] = {"label": label, "problem": problem, "benchmark": benchmark}
        columns |= {"answers": answers, "prompt_id": row["prompt_id"]}
        columns["tokens"] = kept.get("tokens") if length is None else length
        rows.append(kept | columns)
    for row in rows:
        if len(prompts[row["problem"]]) > 1:
            row["problem"] += f", prompt {row['prompt_id']}"
        answers = accepted.setdefault(row["problem"], row["answers"])
        if set(answers) != set(row["answers"]):
            raise InputError(
                f"{where}: problem {row['problem']} accepts {' or '.join(row['answers']):.80}, in "
                f"an earlier row {' or '.join(answers):.80}; expected the same in all of its rows"
            )
    return with_columns(table, **{x: [row.get(x) for row in rows] for x in ("label", *COLUMNS)})


def check_complete(table: pa.Table, where: str) -> None:
    """Check that all problems of a known benchmark are there, and as many outputs of each."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in table.select(["benchmark", "problem"]).to_pylist():
        counts[row["benchmark"]][row["problem"]] += 1
    for name, problems in counts.items():
        size = BENCHMARKS[name].size if name in BENCHMARKS else len(problems)
        usual = statistics.mode(problems.values())
        odd = next((x for x, n in problems.items() if n != usual), None)
        if len(problems) != size:
            missing = [str(i) for i in range(size) if f"{name}/{i}" not in problems]
            listed = f" (missing: {', '.join(missing[:5])})" if len(missing) < size else ""
            text = f"{len(problems)} problems of {name}; expected {size}{listed}"
        elif odd is not None:
            text = f"problem {odd} has {problems[odd]} outputs, most have {usual}"
        else:
            continue
        raise InputError(f"{where}: {text}; --partial accepts that")


def grade(
    pool: GradingPool,
    table: pa.Table,
    tell: Callable[[int, int], object] = lambda done, of: None,
) -> pa.Table:
    """The outputs graded anew; `tell` gets the number graded so far, and the total."""
    verdicts = []
    asked = map(Task, table["response"].to_pylist(), table["answers"].to_pylist())
    for verdict in pool.grade_all(asked):
        verdicts.append(verdict)
        tell(len(verdicts), len(table))
    return with_verdicts(table, verdicts, pool.grader)


def with_verdicts(table: pa.Table, verdicts: Sequence[Verdict], grader: str) -> pa.Table:
    """The outputs with the verdicts of a grader, one a row."""
    names = ("outcome", "extracted", "reason", "correct")
    columns = {name: [getattr(verdict, name) for verdict in verdicts] for name in names}
    return with_columns(table, **columns, grader=[grader] * len(table))


def to_record(table: pa.Table, model: str | None = None) -> pa.Table:
    """Graded outputs as a rollout record, the input of `ktae score` and `ktae compare`.

    `correct` and the reward are null where the outcome is undecided. `model` is the one that
    generated them; None: the one that each output names.
    """
    same = ("step", "prompt", "response", "correct", "label", "outcome", "extracted", "grader")
    columns = {name: table[name] for name in same}
    columns |= {"group": table["label"], "reward": table["correct"]}
    columns["model"] = pa.array([model] * len(table)) if model else table["model"]
    for name, values in (("answer", table["answers"]), ("extra", table.select([*KEPT]))):
        columns[name] = [json.dumps(x, ensure_ascii=False) for x in values.to_pylist()]
    return record.conform(pa.table(columns))
