"""Dumps in the structure of other tools' writers, and the one right reading of each."""

import json

import pytest
import tools
from saved_outputs import write_rows

from ktae import InputError
from ktae.experiments import outputs
from ktae.rollouts import readers
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import UnknownRowsError, parse_fields


def counts(table):
    codes, first = group_codes(table)
    right = table["correct"].to_numpy()
    mixed = [len(set(right[codes == g]) & {0.0, 1.0}) == 2 for g in range(len(first))]
    return len(table), len(first), sum(mixed)


def read(path, *fields, **options):
    notes = Notes(strict=True)
    table = readers.read([path], ReadOptions(fields=parse_fields(fields), **options), notes=notes)
    return table, notes


SUMS = [
    {"ask": "3+4?", "text": "7", "won": 1},
    {"ask": "3+4?", "text": "8", "won": 0},
    {"ask": "5*7?", "text": "35", "won": 1},
    {"ask": "5*7?", "text": "30", "won": 0},
]
BELOW = {"page": 1, "list": SUMS}


@pytest.mark.parametrize("rows", [None, "list[]"])
def test_named_fields_are_those_of_a_row(rows, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(BELOW))
    table, _ = read(path, "response=text", "group=ask", "reward=won", rows=rows)
    assert counts(table) == (4, 2, 2)
    with pytest.raises(InputError, match=r"'list\[\].won'"):
        read(path, "response=text", "group=ask", "reward=list[].won", rows=rows)


def test_fields_of_columns_may_be_named(tmp_path):
    columns = {name: [x[name] for x in SUMS] for name in SUMS[0]}
    path = write_rows(tmp_path / "r.jsonl", columns)
    assert counts(read(path, "response=text", "group=ask", "reward=won")[0]) == (4, 2, 2)


def test_files_of_seeds_are_taken_together(tmp_path):
    for seed in range(3):
        rows = [
            {"generation": f"It is {seed}.", "problem": x, "expected_answer": y}
            | {"symbolic_correct": seed == 0}
            for x, y in (("3+4?", "7"), ("5*7?", "35"))
        ]
        write_rows(tmp_path / f"output-rs{seed}.jsonl", *rows)
    assert counts(read(tmp_path)[0]) == (6, 2, 2)  # the tool's names say that they are of one run
    fields = ["response=generation", "group=problem", "reward=symbolic_correct"]
    apart, notes = read(tmp_path, *fields)
    assert counts(apart) == (6, 6, 0) and notes.counts["apart"] == 2
    assert counts(read(tmp_path, *fields, join=True)[0]) == (6, 2, 2)
    joined = outputs.read(tmp_path, ReadOptions(join=True))
    assert sorted(joined["answers"].to_pylist()) == [["35"]] * 3 + [["7"]] * 3
    assert len(set(joined["problem"].to_pylist())) == 2


def test_turns_are_no_rollouts(tmp_path):
    steps = [{"response": "Let me think", "reward": 0}, {"response": "7", "reward": 1}]
    path = write_rows(tmp_path / "r.jsonl", {"task_id": 1, "total_reward": 1, "steps": steps})
    with pytest.raises(InputError):
        read(path, "response=steps[].response", "group=task_id", "reward=steps[].reward")
    with pytest.raises(UnknownRowsError):
        read(path)


TURNS = [{"role": x, "content": "ASKED"} for x in ("user", "assistant")]


@pytest.mark.parametrize(
    ("row", "response"),
    [
        ({"r": ["a", "b"], "w": [1]}, "r"),
        ({"r": ["a", "b"], "w": 1}, "r[]"),
        ({"r": "a", "w": [1, 0]}, "r"),
        ({"r": TURNS, "w": [0, 1]}, "r[].content"),
    ],
)
def test_lists_that_do_not_fit_are_errors(row, response, tmp_path):
    path = write_rows(tmp_path / "r.jsonl", row | {"g": "x"})
    with pytest.raises(InputError):
        read(path, f"response={response}", "group=g", "reward=w")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("runs[1].msgs[-1].content", ["5"]),
        ("runs.0.msgs.0.content", ["4"]),
        ("by.dotted.name", ["4", "5"]),
        ("choices", ["4", "5"]),
    ],
)
def test_paths(path, expected, tmp_path):
    msgs = [[{"content": x}] for x in "45"]
    row = {"runs": [{"msgs": x} for x in msgs], "by": {"dotted.name": ["4", "5"]}, "g": 1}
    row["ok"] = [True, False] if len(expected) == 2 else True
    row["choices"] = [{"message": {"role": "assistant", "content": x}} for x in "45"]
    table, _ = read(
        write_rows(tmp_path / "r.jsonl", row), f"response={path}", "group=g", "correct=ok"
    )
    assert table["response"].to_pylist() == expected


@pytest.mark.parametrize("name", ["stream.jsonl", "stream/00000.jsonl"])
def test_the_stream_of_prime_rl_with_its_annotations(name, tmp_path):
    folder = tmp_path / "monitors" / "file" / "traces"
    rows = tools.rows("verifiers' traces traces.jsonl")[:2]
    evaluation = rows[0] | {"run": {"work": {"type": "eval", "step": 2}}}
    write_rows(folder / name, *rows, evaluation)
    write_rows(folder / "index.jsonl", {"line": 1, "reward": 1.0})
    info = {"train": {"effective": True}, "advantage": 0.5}
    note = {"version": 1, "trace_id": "t", "branches": [], "info": info}
    write_rows(folder / "annotations" / "orchestrator.jsonl", note, note)
    write_rows(tmp_path / "metrics.jsonl", {"step": 1, "loss": 0.5})
    table, notes = read(tmp_path)
    assert counts(table) == (2, 1, 1)
    assert notes.counts["evaluation"] == 1 and "metrics.jsonl" in notes.names["settings"]


def test_a_folder_is_read_whole(tmp_path):
    row = {"group": 1, "response": "4", "reward": 1}
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.jsonl", "deep/b.jsonl", "deep/er/c.jsonl", "a.parquet", ".hidden.jsonl"):
        write_rows(tmp_path / name, row)
    write_rows(tmp_path / "aggregated_results.jsonl", {"eval/score": 0.5})
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "packed.jsonl.zst").write_bytes(b"x")
    table, notes = read(tmp_path)
    assert len(table) == 3 and notes.names["settings"] == ["config.json"]
    assert sorted(notes.names["files"]) == [
        "a.parquet",
        "aggregated_results.jsonl",
        "packed.jsonl.zst",
    ]
    with pytest.raises(UnknownRowsError):
        read(tmp_path / "aggregated_results.jsonl")
