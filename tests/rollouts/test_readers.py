import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktae import InputError
from ktae.experiments import outputs
from ktae.rollouts import readers, record
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions

ROLLOUT = {"group": "g", "response": "it is 2", "reward": 1}


def write_lines(path, *rows):
    """Rows as JSON, or, where they are text, as they are."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def read_rows(path, notes=None, **options):
    """What was read, without the fields that are null."""
    table = readers.read([path], ReadOptions(**options), notes=notes)
    assert table.schema.equals(record.SCHEMA, check_metadata=True)
    rows = table.drop_columns(["label", "prompt_id"]).to_pylist()
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def test_a_path_to_groups_that_leads_nowhere_is_refused(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", ROLLOUT | {"prompt": "p"})
    with pytest.raises(InputError, match="'nowhere'"):
        readers.read(path, ReadOptions(group_by=["nowhere"]))


def test_jsonl(tmp_path):
    path = write_lines(
        tmp_path / "r.jsonl",
        ROLLOUT | {"problem": "1 + 1?", "answer": [2, "two"], "level": 3, "tags": ["é"]},
        "",
        {"group": 7, "token_ids": [4, 5], "mask": [1, 0], "reward": -0.5, "step": 2},
        {"group": "h", "response": "", "reward": 0, "correct": True, "prompt": "p", "problem": "q"},
        ROLLOUT | {"prompt": float("nan"), "problem": "1 + 1?", "model": float("nan")},
    )
    assert read_rows(path) == [
        {
            **{"group": "g", "prompt": "1 + 1?", "response": "it is 2", "answer": '["2", "two"]'},
            **{"reward": 1.0, "correct": 1.0, "extra": '{"level": 3, "tags": ["é"]}'},
        },
        {
            **{"group": "7", "step": 2, "token_ids": [4, 5], "mask": [True, False]},
            **{"reward": -0.5, "correct": 0.0},
        },
        {
            **{"group": "h", "prompt": "p", "response": "", "reward": 0.0, "correct": 1.0},
            "extra": '{"problem": "q"}',
        },
        ROLLOUT | {"prompt": "1 + 1?", "correct": 1.0},
    ]


@pytest.mark.parametrize(
    ("fields", "correct"),
    [
        ({"correct": True}, 1.0),
        ({"correct": None, "reward": 1}, None),
        ({"correct": True, "reward": float("nan")}, 1.0),
        ({"reward": 0.5}, 0.0),
        ({"reward": 0.6}, 1.0),
    ],
)
def test_correctness_is_the_verdict_or_else_the_reward_above_the_threshold(
    fields, correct, tmp_path
):
    path = write_lines(tmp_path / "r.jsonl", ROLLOUT | fields)
    assert readers.read([path], ReadOptions(threshold=0.5))["correct"].to_pylist() == [correct]


@pytest.mark.parametrize(
    ("rewards", "threshold", "noted"),
    [
        ((0, 1, 3), None, {"values": 2}),
        ((0, 1, 3), 0.0, {}),
        ((0, 0.2), 0.1, {}),
        ((0, 1), None, {}),
        ((-2, -1), None, {"none_above": 1}),
        ((1, 2), None, {"values": 2, "all_above": 1}),
    ],
)
def test_rewards_that_leave_open_what_is_correct_are_noted(rewards, threshold, noted, tmp_path):
    path = write_lines(tmp_path / "r.jsonl", *(ROLLOUT | {"reward": x} for x in rewards))
    notes = Notes()
    readers.read([path], ReadOptions(threshold=threshold), notes=notes)
    assert {k: n for k, n in notes.counts.items() if n} == noted


@pytest.mark.parametrize("threshold", [0.1, 0.7, -0.3])
@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()])
def test_a_reward_of_the_threshold_is_not_above_it_in_any_dtype(dtype, threshold, tmp_path):
    rewards = pa.array([threshold + 0.2, threshold, threshold - 0.2], dtype)
    columns = {"group": [1] * 3, "response": ["a", "b", "c"], "reward": rewards}
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    table = readers.read([tmp_path / "r.parquet"], ReadOptions(threshold=threshold))
    assert table["correct"].to_pylist() == [1, 0, 0]


def test_a_file_that_is_given_twice_is_refused(tmp_path):
    path = write_lines(tmp_path / "one.jsonl", ROLLOUT, ROLLOUT)
    with pytest.raises(InputError, match=r"one.jsonl"):
        readers.read([path, tmp_path / "." / "one.jsonl"])


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('{"group": 1, ', []),
        ({"response": "a", "reward": 1}, ["group", "response"]),
        ({"group": 1, "response": "a"}, ["reward", "correct"]),
        (ROLLOUT | {"group": 1.5}, ["group", "1.5"]),
        (ROLLOUT | {"correct": "maybe"}, ["correct", "maybe"]),
        (ROLLOUT | {"token_ids": [1, True]}, ["token_ids"]),
        (ROLLOUT | {"token_ids": [1], "mask": [1, 1]}, ["mask", "token_ids"]),
        (ROLLOUT | {"token_ids": [1], "mask": [2]}, ["mask", "[2]"]),
        (ROLLOUT | {"token_ids": [5, 7], "loss_mask": [1]}, ["loss_mask"]),
    ],
)
def test_a_bad_line_is_named(line, names, tmp_path):
    path = write_lines(tmp_path / "r.jsonl", ROLLOUT, "", line, ROLLOUT)
    with pytest.raises(InputError) as caught:
        readers.read([path])
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert all(name in str(caught.value) for name in names)


def test_a_record_of_words_has_none_of_its_numbers_where_a_field_is_named(tmp_path):
    rows = [
        ROLLOUT | {"token_ids": [0, 1, 2], "correct": 1.0, "answer": "2", "extra": '{"note": "n"}'}
    ]
    table = pa.Table.from_pylist(rows, schema=record.SCHEMA)
    record.write(
        table.replace_schema_metadata({record.UNIT_KEY: record.WORDS}), tmp_path / "r.parquet"
    )
    expected = ROLLOUT | {"correct": 1.0, "answer": "2", "extra": '{"note": "n"}'}
    assert read_rows(tmp_path / "r.parquet") == [expected]
    assert read_rows(tmp_path / "r.parquet", fields={"answer": "answer"}) == [expected]
    assert outputs.read(tmp_path / "r.parquet")["tokens"].to_pylist() == [None]
    added = pq.read_table(tmp_path / "r.parquet").append_column("acc", [[0.5]])
    pq.write_table(added, tmp_path / "added.parquet")
    (row,) = read_rows(tmp_path / "added.parquet", fields={"reward": "acc"})
    assert (row["reward"], json.loads(row["extra"])) == (0.5, {"note": "n"})


def test_a_verdict_of_null_needs_no_reward_and_is_none(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", {"group": "g", "response": "a", "correct": None})
    (row,) = read_rows(path)
    assert "reward" not in row and "correct" not in row
    notes = Notes()
    write_lines(path, ROLLOUT | {"reward": 0.5, "correct": None})
    readers.read(path, notes=notes)
    assert not notes.counts["values"]


TRL = {"prompt": "p", "completion": "c", "advantage": 0, "accuracy": 1.0}
VERL = {"input": "p", "output": "c", "score": 1.0}


@pytest.mark.parametrize(
    ("row", "names", "labels"),
    [
        (ROLLOUT, "one.jsonl two.jsonl", "one.jsonl:g two.jsonl:g"),
        (ROLLOUT, "rank_0.jsonl rank_1.jsonl", "rank_0.jsonl:g rank_1.jsonl:g"),
        (ROLLOUT, "a/1.jsonl b/1.jsonl", "a/1.jsonl:g b/1.jsonl:g"),
        (TRL, "completions/completions_1.jsonl completions/completions_2.jsonl", "p p"),
        (TRL, "a/completions/c_1.jsonl b/completions/c_1.jsonl", "a:p b:p"),
        (VERL, "1.jsonl 2.jsonl", "p p"),
        (VERL, "grpo.jsonl dapo.jsonl", "grpo.jsonl:p dapo.jsonl:p"),
        (VERL, "a/1.jsonl b/1.jsonl", "a:p b:p"),
        (VERL, "train/1.jsonl eval/1.jsonl", "p eval:p"),
    ],
)
@pytest.mark.parametrize("join", [False, True])
def test_a_group_is_of_one_file_or_run(row, names, labels, join, tmp_path):
    for i, name in enumerate(names.split()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_lines(tmp_path / name, *[row | {"step": i, "advantage": i}] * 2)
    groups = readers.read([tmp_path], ReadOptions(join=join))["group"].to_pylist()[::2]
    label = groups[0].rpartition(":")[2]
    shown = [x.replace(label, "p" if row is not ROLLOUT else "g") for x in groups]
    assert sorted(shown) == sorted(
        [labels.split()[0].rpartition(":")[2]] * 2 if join else labels.split()
    )


@pytest.mark.parametrize("mask", [{"loss_mask": [0, 1]}, {"labels": [-100, 7]}])
def test_a_mask_is_taken_by_the_names_that_trainers_give_it(mask, tmp_path):
    row = {"group": 1, "token_ids": [5, 7], "reward": 1, "action_mask": [1]} | mask
    table = readers.read(write_lines(tmp_path / "r.jsonl", row))
    assert table["mask"].to_pylist() == [[False, True]]


@pytest.mark.parametrize("name", ["prompt", "question", "instruction"])
def test_a_group_is_one_prompt(name, tmp_path):
    steps = ("p", 1), ("q", 1), ("p ", 1), ("q", 2)
    rows = [ROLLOUT | {name: prompt, "step": step} for prompt, step in steps]
    path = write_lines(tmp_path / "r.jsonl", *rows)
    notes = Notes()
    groups = readers.read(path, notes=notes)["group"].to_pylist()
    assert groups[0] == groups[2] == groups[3] == "g" != groups[1] and notes.counts["split"] == 1
    named = readers.read(path, ReadOptions(fields={"group": "group"}))
    assert set(named["group"].to_pylist()) == {"g"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompts": list("ppqq"), "responses": list("abcd"), "rewards": [1, 0, 1, 0]},
        {"question": list("ppqq"), "response": list("abcd"), "reward": [1, 0, 1, 0]},
        {"query": list("ppqq"), "samples": [{"response": x, "reward": 1} for x in "abcd"]},
    ],
)
def test_a_prompt_for_each_response_is_a_batch_and_no_group(row, tmp_path):
    groups = readers.read(write_lines(tmp_path / "r.jsonl", row))["group"].to_pylist()
    assert groups[0] == groups[1] != groups[2] == groups[3]
    name = next(iter(row))
    with pytest.raises(InputError, match=f"line 1: .*{name}"):
        readers.read(write_lines(tmp_path / "r.jsonl", row | {name: list("ppq")}))


def test_groups_of_a_record_that_ktae_has_written_stay(tmp_path):
    rows = [ROLLOUT | {"group": "g", "prompt": prompt} for prompt in "pq"]
    record.write(pa.Table.from_pylist(rows), tmp_path / "r.parquet")
    assert readers.read(tmp_path / "r.parquet")["group"].to_pylist() == ["g", "g"]


def test_a_broken_file_of_a_folder_is_left_out_and_named(tmp_path):
    write_lines(tmp_path / "a.jsonl", ROLLOUT)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "a.jsonl")
    notes = Notes()
    assert len(readers.read(tmp_path, notes=notes)) == 1
    assert notes.counts["broken"] == 1 and "b.parquet" in notes.names["broken"][0]
    with pytest.raises(InputError, match=r"b\.parquet"):
        readers.read(tmp_path)
