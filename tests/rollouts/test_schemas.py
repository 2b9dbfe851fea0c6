"""Each schema in the shape that its tool's source or documentation gives it, and what is taken."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tools
from saved_outputs import write_rows

from ktae import InputError
from ktae.experiments import outputs
from ktae.rollouts import readers, record
from ktae.rollouts.files import choose_files
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import UnknownRowsError, parse_fields


def read(*paths, **options):
    """The rollouts without what is null, and what the files were read as."""
    notes = Notes(strict=True)
    table = readers.read(paths, ReadOptions(**options), notes=notes)
    rows = table.drop_columns(["label", "prompt_id"]).to_pylist()
    rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
    return rows, dict(notes.titles)


# --- tools


@pytest.mark.parametrize("tool", tools.TOOLS)
def test_each_tool_in_the_shape_of_its_source(tool, tmp_path):
    case = tools.TOOLS[tool]
    path = write_rows(tmp_path / case["file"], *case["rows"])
    rows, titles = read(path, threshold=case.get("threshold"))
    assert titles == {case["title"]: 1}
    names = {name for row in case["read"] for name in row} | {"response", "token_ids", "mask"}
    assert [{k: x for k, x in row.items() if k in names} for row in rows] == case["read"]
    table = readers.read([path], ReadOptions(threshold=case.get("threshold")))
    assert len(group_codes(table)[1]) == case["groups"]
    if "benchmark" in case:
        assert set(outputs.read(path)["benchmark"].to_pylist()) == {case["benchmark"]}


def test_lm_eval_of_several_responses_and_metrics(tmp_path):
    path, tool = tmp_path / "samples_x.jsonl", "samples of lm-evaluation-harness "
    row = tools.rows(tool + "samples_gsm8k_2025-01-02T03-04-05.6.jsonl")[0]
    several = row | {"resps": [["a", "b"]]}
    rows, _ = read(write_rows(path, several | {"exact_match": [1.0, 0.0]}))
    assert [x["correct"] for x in rows] == [1, 0]
    notes = Notes()
    readers.read([write_rows(path, several)], notes=notes)  # one value says nothing about each
    assert notes.counts["without_reward"] == 2
    write_rows(path, row | {"metrics": ["acc", "exact_match"], "acc": 0.0})
    assert read(path)[0][0]["correct"] == 1
    assert read(path, correctness="acc")[0][0]["correct"] == 0


def test_of_a_session_of_verl_s_the_last_output_counts(tmp_path):
    """Its context may have been written anew. A data set's own numbers look like a session's."""
    for answers, inputs in (("55", ["ASKED"]), ("57", ["ASKED", "OTHER"])):
        rows = [
            {"step": 1, "input": asked, "output": f"x{n}", "gts": x, "score": 1, "uid": f"u_0_{n}"}
            for n, (asked, x) in enumerate(zip(("ASKED", "OTHER"), answers, strict=True))
        ]
        table = readers.read(write_rows(tmp_path / "1.jsonl", *rows))
        assert table["prompt"].to_pylist() == inputs
        assert table["response"].to_pylist() == ["x0", "x1"][-len(inputs) :]


# --- what the user names


def test_named_fields(tmp_path):
    row = {"output": "4", "prompt_id": 3, "scores": {"acc": 1.0}, "note": "n"}
    fields = parse_fields(["response=output", "group=prompt_id", "reward=scores.acc"])
    rows, schemas = read(write_rows(tmp_path / "r.jsonl", row), fields=fields)
    assert schemas == {"plain rollouts": 0}
    (note,) = Notes(titles=Counter({"a dump": 2, "another": 1}))
    assert note.key == "titles" and note.examples == ("a dump (2 files)", "another")
    assert rows == [
        {"group": "3", "response": "4", "reward": 1, "correct": 1}
        | {"extra": '{"scores": {"acc": 1.0}, "note": "n"}'}
    ]


def test_a_named_field_replaces_that_of_a_tool_or_a_record(tmp_path):
    row = {"input": "2 + 2?", "output": "4", "score": 1.0, "step": 1, "acc": True, "mine": 0.0}
    rows, schemas = read(write_rows(tmp_path / "1.jsonl", row), fields={"reward": "mine"})
    assert schemas == {"verl's rollout dump": 1}
    assert (rows[0]["reward"], rows[0]["correct"]) == (0, 0)
    row, path = (
        {"group": 1, "response": "4", "reward": 1.0, "advantage": -2.0},
        tmp_path / "r.jsonl",
    )
    pq.write_table(readers.read([write_rows(path, row)]), tmp_path / "r.parquet")
    rows, _ = read(tmp_path / "r.parquet", fields={"reward": "advantage"})
    assert (rows[0]["reward"], rows[0]["correct"]) == (-2, 0)


@pytest.mark.parametrize("name", ["reward", "group", "prompt"])
@pytest.mark.parametrize("more", [{}, {"response": "response"}])
def test_a_path_to_nothing_in_a_whole_file_is_an_error(name, more, tmp_path):
    row = {"group": 1, "response": "4", "reward": 1.0}
    path = write_rows(tmp_path / "r.jsonl", row, row)
    for reader in (readers.read, outputs.read):
        with pytest.raises(InputError, match=f"line 1: .*'no.pe' for {name}"):
            reader(path, ReadOptions(fields=more | {name: "no.pe"}))


def test_rows_that_look_like_a_schema_and_are_none(tmp_path):
    row = {"example_id": 1, "completion": "x", "reward": {"a": 1}, "trajectory": [{"tokens": 5}]}
    with pytest.raises(UnknownRowsError):
        read(write_rows(tmp_path / "r.jsonl", row))


# --- models and folders


def test_models_are_told_apart(tmp_path):
    rows = [
        {"group": "a", "response": "x", "reward": i, "model": name, "answer": "1"}
        for name in ("small", "large")
        for i in (0, 1)
    ]
    path = write_rows(tmp_path / "r.jsonl", *rows)
    notes = Notes()
    table = readers.read([path], notes=notes)
    assert table["group"].to_pylist() == ["a (small)"] * 2 + ["a (large)"] * 2
    assert notes.counts["models"] == 2
    record.write(table, tmp_path / "again.parquet")
    assert readers.read([tmp_path / "again.parquet"])["group"].equals(table["group"])
    assert set(readers.read([path], ReadOptions(pool_models=True))["group"].to_pylist()) == {"a"}
    assert len(set(outputs.read(path, ReadOptions(pool_models=True))["problem"].to_pylist())) == 1


SCORED = ["scores.parquet", "scores.tokens.parquet"]


@pytest.mark.parametrize(
    ("there", "alone"),
    [
        (["1.jsonl", *SCORED], SCORED),
        (["1.jsonl", "train.parquet", "train.tokens.parquet"], ["train.tokens.parquet"]),
        (["a.json", *SCORED], SCORED),
        (["below/1.jsonl", *SCORED], SCORED),
        (SCORED, SCORED[1:]),
        (["1.jsonl", "completions/2.jsonl", "model/3.jsonl", "results_1.json"], []),
        (["1.jsonl", "live/1.jsonl"], ["live/1.jsonl"]),
        (["all/1.jsonl", "effective/1.jsonl"], ["effective/1.jsonl"]),
        (["1.jsonl", "validation/1.jsonl"], ["validation/1.jsonl"]),
        (["7.json", "8.json"], []),
        (["7.jsonl", "8.jsonl", "eval_7.jsonl"], ["eval_7.jsonl"]),
    ],
)
def test_no_rollout_of_a_folder_counts_twice(there, alone, tmp_path):
    """`score` writes beside its input by default, and gzip -k beside the file itself."""
    for name in there:
        write_rows(tmp_path / name, {})
    credit = pa.table({"group": ["g"]}).replace_schema_metadata({record.CREDIT_KEY: "{}"})
    if "scores.parquet" in there:  # with the metadata that `score` writes
        pq.write_table(credit, tmp_path / "scores.parquet")
    files, others = choose_files(tmp_path)
    assert [str(file.relative_to(tmp_path)) for file in others] == alone
    rollouts = [name for name in there if name not in alone]
    assert [str(file.relative_to(tmp_path)) for file in files] == rollouts


# --- TRL's last batch, logged again


def trl_step(step, responses, advantages=(1.0, -1.0)):
    return [
        {"step": step, "prompt": "2 + 2?", "completion": text, "correct": i, "advantage": advantage}
        for i, (text, advantage) in enumerate(zip(responses, advantages, strict=True))
    ]


def counted_once(*paths):
    notes = Notes(strict=True)
    table = readers.read(paths, notes=notes)
    return table["step"].to_pylist(), notes.names["steps"]


def test_a_step_of_trl_s_that_repeats_the_one_before_counts_once(tmp_path):
    run = tmp_path / "completions"
    write_rows(run / "completions_00001.jsonl", *trl_step(1, "45"))
    write_rows(run / "completions_00002.jsonl", *reversed(trl_step(2, "45")))
    write_rows(run / "completions_00003.jsonl", *trl_step("3", "45"))
    write_rows(run / "completions_00004.jsonl", *trl_step(4, "46"))
    steps, said = counted_once(tmp_path)
    assert steps == [1, 1, 4, 4] and said == ["step 2 repeats step 1", "step 3 repeats step 2"]


def test_a_step_that_is_not_the_whole_of_the_one_before_counts(tmp_path):
    for name, rows in {
        "other advantages": trl_step(2, "45", (0.5, -0.5)),
        "fewer": trl_step(2, "45")[:1],
        "another number of each": trl_step(2, "445", (1.0, 1.0, -1.0)),
        "other texts": trl_step(2, "54"),
    }.items():
        path = write_rows(tmp_path / f"{name}.jsonl", *trl_step(1, "45"), *rows)
        assert counted_once(path) == ([1, 1] + [2] * len(rows), []), name
