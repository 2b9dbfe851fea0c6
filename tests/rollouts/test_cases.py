"""Dumps in the structure of other tools' writers, and the one right reading of each."""

import pytest
import tools
from saved_outputs import write_rows

from ktae import InputError
from ktae.experiments import outputs
from ktae.rollouts import readers
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import PathError, UnknownRowsError, parse_fields

TWO_BY_TWO = (4, 2, 2)
"""Rollouts, groups and mixed groups."""


def counts(table):
    codes, first = group_codes(table)
    right = table["correct"].to_numpy()
    mixed = [len(set(right[codes == g]) & {0.0, 1.0}) == 2 for g in range(len(first))]
    return len(table), len(first), sum(mixed)


def read(path, *fields, **options):
    notes = Notes(strict=True)
    table = readers.read([path], ReadOptions(fields=parse_fields(fields), **options), notes=notes)
    return table, notes


CASES = """
4 2 2 wrapped_list.json response=samples.completion group=samples.problem_id reward=samples.reward
4 2 2 wrapped_list.json response=samples[].completion group=samples[].problem_id
    reward=samples[].reward
4 2 2 roll_columns.jsonl
4 2 2 plain_columns.jsonl
4 2 2 plain_columns.jsonl response=response group=prompt reward=reward
4 1 1 verifiers_tools
4 1 1 trl_tools.jsonl
4 1 1 trl_reasoning.jsonl
4 1 1 verifiers_reasoning
2 1 1 chat_response.jsonl
8 4 4 two_depths
3 3 0 samples_gsm8k_2024-06-01T00-00-00.jsonl
4 1 1 format_reward_of_one.jsonl
2 1 1 steps_of_trajectories.jsonl response=steps group=task_id reward=total_reward
4 2 2 group_is_the_row.jsonl
4 1 1 prime_results.jsonl
4 2 2 problems_by_completions.json
4 2 2 problems_by_completions.json response=results.completions.full_model_response
    group=results.question reward=results.completions.score
4 2 2 problems_by_completions.json response=results[].completions[].full_model_response
    group=results[].question reward=results[].completions[].score
4 2 2 inspect_letters.json
4 2 2 inspect_letters.json response=samples.output.choices.0.message.content group=samples.id
    reward=samples.scores.match.value
2 1 1 pass_fail_text.jsonl response=completion group=task_id reward=correct
4 2 2 atropos.jsonl
4 2 2 atropos.jsonl token_ids=tokens mask=masks reward=scores
4 2 2 metrics_beside
4 2 2 completions_1_abc.table.json
4 2 2 rollouts.csv
4 1 1 prime_rl_run
4 1 1 prime_rl_run/rollouts
2 1 1 prime_rl_run/rollouts/step_5/eval
""".replace("\n    ", " ").strip()
"""Rollouts, groups, mixed groups; file; fields that are named."""


@pytest.mark.parametrize("case", CASES.split("\n"))
def test_the_cases(case, shared_cases):
    *expected, name = case.split()[:4]
    table, notes = read(shared_cases / "dumps" / name, *case.split()[4:])
    assert counts(table) == tuple(map(int, expected))
    text = " ".join(filter(None, table["response"].to_pylist()))
    assert "USERTEXT" not in text
    if "reasoning" in name:
        assert text.count("THINK") == 4
    if "tools" in name or name == "prime_results.jsonl":
        assert notes.counts["context"] == 4
        assert "call-" not in text and "0f3a" not in text
    if name in ("metrics_beside", "prime_rl_run"):
        assert any("metrics.jsonl" in note.text for note in notes)
    if name.startswith("format"):
        assert notes.counts["values"] == 3
    if name.startswith("samples_"):
        assert notes.counts["filters"] == 3 and table["correct"].to_pylist() == [0, 1, 0]
    if name == "atropos.jsonl":
        masks = table["mask"].to_pylist()
        ids = table["token_ids"].to_pylist()
        counted = [
            [x for x, m in zip(i, k, strict=True) if m] for i, k in zip(ids, masks, strict=True)
        ]
        assert counted == [[20], [21], [22], [23]]


def test_evaluations_in_files_of_their_own_are_read_alone(shared_cases):
    dumps = shared_cases / "dumps"
    for folder in (dumps / "prime_rl_run", dumps / "prime_rl_run" / "rollouts"):
        assert counts(read(folder, evaluation=True)[0]) == (2, 1, 1)
    with pytest.raises(InputError, match="nothing in it is of an evaluation"):
        read(dumps / "rollouts.csv", evaluation=True)


def test_files_of_seeds_are_taken_together(shared_cases):
    folder = shared_cases / "dumps" / "nemo_skills"
    for fields in ([], ["response=generation", "group=problem", "reward=symbolic_correct"]):
        apart, notes = read(folder, *fields)
        if fields:  # otherwise the tool's names say that they are of one run
            assert counts(apart) == (6, 6, 0) and notes.counts["apart"] == 2
        assert counts(read(folder, *fields, join=True)[0]) == (6, 2, 2)
    joined = outputs.read(folder, ReadOptions(join=True))
    assert sorted(x.sample for x in joined) == [0, 0, 1, 1, 2, 2]
    assert {x.answers for x in joined} == {("5",), ("16",)}


def test_turns_are_no_rollouts(shared_cases):
    path = shared_cases / "dumps" / "steps_of_trajectories.jsonl"
    with pytest.raises(PathError):
        read(path, "response=steps[].response", "group=task_id", "reward=steps[].reward")
    with pytest.raises(UnknownRowsError):
        read(path)


TURNS = [{"role": x, "content": "ASKED"} for x in ("user", "assistant")]


def test_other_verdicts_of_inspect_are_unknown_and_said(tmp_path):
    sample = tools.rows("inspect's log r.jsonl")[0]
    rows = [sample | {"scores": {"m": {"value": letter}}} for letter in "CIPN"]
    table, notes = read(write_rows(tmp_path / "r.jsonl", *rows))
    assert table["correct"].to_pylist() == [1, 0, None, None]
    assert notes.counts["verdicts"] == 2 and notes.names["verdicts"] == ["'P'", "'N'"]
    several = sample | {"scores": {"m": {"value": {"form": 1, "acc": 0}}}}
    assert read(write_rows(tmp_path / "r.jsonl", several))[0]["correct"].to_pylist() == [0]


def test_a_rollout_without_output_is_told(tmp_path):
    row, other = tools.rows("NeMo Gym's rollouts r.jsonl")
    empty = other | {"response": {"model": "m", "output": []}}
    table, notes = read(write_rows(tmp_path / "r.jsonl", row, empty))
    assert len(table) == 1 and notes.counts["empty"] == 1


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ({"r": ["a", "b"], "g": ["x"], "w": [1, 0]}, "r=r g=g w=w"),
        ({"r": ["a", "b"], "g": "x", "w": [1]}, "r=r[] g=g w=w[]"),
        ({"r": ["a", "b"], "g": "x", "w": 1}, "r=r[] g=g w=w"),
        ({"r": [["a", "b"]], "g": "x", "w": [1]}, "r=r[][] g=g w=w[]"),
        ({"r": "a", "g": "x", "w": [1, 0]}, "r=r g=g w=w[]"),
        ({"r": "a", "g": ["x", "y"], "w": 1}, "r=r g=g w=w"),
        ({"r": TURNS, "g": "x", "w": [0, 1]}, "r=r[].content g=g w=w"),
    ],
)
def test_lists_that_do_not_fit_are_errors(row, fields, tmp_path):
    names = {"r": "response", "g": "group", "w": "reward"}
    named = [names[x[0]] + x[1:] for x in fields.split()]
    with pytest.raises(InputError):
        read(write_rows(tmp_path / "r.jsonl", row), *named)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("runs[].msgs[-1].content", ["4", "5"]),
        ("runs.msgs.-1.content", ["4", "5"]),
        ("runs[0].msgs[0].content", ["4"]),
        ("by.dotted.name[]", ["4", "5"]),
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


def trace(name, kind, text, reward):
    nodes = [
        {"parent": None, "message": TURNS[0], "sampled": False, "token_ids": [1], "mask": [False]},
        {
            "parent": 0,
            "message": {"role": "assistant", "content": text},
            "sampled": True,
            "token_ids": [2, 3],
            "mask": [True, True],
        },
    ]
    return {
        "id": f"e{name}",
        "group": {"id": "g"},
        "task": {"data": {"idx": 1}, "key": "k"},
        "run": {"work": {"type": kind, "step": 2}},
        "traces": [{"id": name, "nodes": nodes, "rewards": {"r": {"score": reward}}}],
    }


@pytest.mark.parametrize("name", ["stream.jsonl", "stream/00000.jsonl"])
def test_the_stream_of_prime_rl_with_its_annotations(name, tmp_path):
    folder = tmp_path / "monitors" / "file" / "traces"
    (folder / "annotations").mkdir(parents=True)
    (folder / name).parent.mkdir(exist_ok=True)
    write_rows(
        folder / name,
        trace("a", "train", "4", 1.0),
        trace("b", "train", "5", 0.0),
        trace("c", "eval", "4", 1.0),
    )
    write_rows(folder / "index.jsonl", {"line": 1, "reward": 1.0})
    write_rows(
        folder / "annotations" / "orchestrator.jsonl",
        *(
            {
                "version": 1,
                "trace_id": x,
                "branches": [],
                "info": {"train": {"effective": True}, "advantage": 0.5},
            }
            for x in "ab"
        ),
    )
    write_rows(tmp_path / "metrics.jsonl", {"step": 1, "loss": 0.5})
    table, notes = read(tmp_path)
    assert counts(table) == (2, 1, 1) and table["advantage"].to_pylist() == [0.5, 0.5]
    assert notes.counts["evaluation"] == 1 and "metrics.jsonl" in notes.names["settings"]
    assert counts(read(tmp_path, evaluation=True)[0]) == (1, 1, 0)


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
