"""`ktae.score` on tables: whole, in parts of whole groups, by pandas and by Ray."""

import numpy as np
import pyarrow as pa
import pytest
from extras import require
from saved_outputs import write_lines

import ktae
from ktae import InputError
from ktae.report import inputs
from ktae.report.frame import frame_of
from ktae.report.scoring import credit_column, credit_of
from ktae.rollouts import record
from ktae.rollouts.options import ReadOptions

ROWS = [
    {"group": g, "token_ids": [1, 2 + ok, 5 + g, 2 + ok], "reward": float(ok), "note": f"n{g}{ok}"}
    for g in range(5)
    for ok in (0, 1, 1, 0)
]


def test_it_is_the_credit_of_the_command():
    table = ktae.score(pa.Table.from_pylist(ROWS), "sharp-trigrams")
    rows = [{**x, "group": str(x["group"]), "correct": x["reward"]} for x in ROWS]
    for row in rows:
        del row["note"]
    frame = frame_of(inputs.from_record(record.conform(pa.Table.from_pylist(rows))))
    expected = credit_column(frame, credit_of(frame, "sharp-trigrams"))
    assert table["credit"].to_pylist() == expected.to_pylist()
    assert table["note"].to_pylist() == [x["note"] for x in ROWS]
    assert any(any(x) for x in table["credit"].to_pylist())


def test_parts_of_whole_groups_give_the_same():
    whole = ktae.score(pa.Table.from_pylist(ROWS))
    parts = [ktae.score(pa.Table.from_pylist(ROWS[i : i + 4])) for i in range(0, 20, 4)]
    assert pa.concat_tables(parts)["credit"].to_pylist() == whole["credit"].to_pylist()
    single = ktae.score(pa.Table.from_pylist(ROWS[:1]))
    assert single["credit"].to_pylist() == [[0.0] * 4]
    assert len(ktae.score(pa.Table.from_pylist(ROWS).slice(0, 0))) == 0


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64(), pa.float16()])
def test_the_threshold_is_that_of_the_functions_and_of_the_reader(dtype, tmp_path):
    """A reward of .1 in float32 is not above .1, wherever it is looked at."""
    values = np.array([0.1, 0.5, 0.1, 0.0]).astype(dtype.to_pandas_dtype())
    ids = [[1, 2], [1, 3], [4, 2], [5, 5]]
    table = pa.table({"group": ["g"] * 4, "token_ids": ids, "reward": pa.array(values, dtype)})
    mask = np.ones((4, 2), dtype=bool)
    of_function = ktae.token_advantages(
        values, ids, mask, [0] * 4, threshold=0.1, base=np.zeros(4), credit="paper"
    )
    assert of_function[1, 1] == 0.5 and of_function[0, 1] < 0
    assert ktae.score(table, "paper", threshold=0.1)["credit"].to_pylist() == of_function.tolist()
    lines = [x | {"reward": float(x["reward"])} for x in table.to_pylist()]
    path = write_lines(tmp_path / "r.jsonl", lines)
    read = ktae.read_rollouts(path, ReadOptions(threshold=0.1))
    assert read["correct"].to_pylist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    "table",
    [
        5,
        [1],
        [{"group": 1, "response": {}, "reward": 1.0}],
        pa.table({"token_ids": [[1]], "reward": [1.0]}),
        pa.table({"group": ["g"], "response": ["a"]}),
        pa.table({"group": ["g"] * 2, "response": ["a", None], "token_ids": [None, [1]]}),
    ],
)
def test_what_is_no_table_of_rollouts_is_refused(table):
    with pytest.raises(InputError):
        ktae.score(table)


@pytest.mark.nightly
def test_on_ray_data(tmp_path):
    """As docs/read-your-own.md has it, on a local Ray."""
    require("ray")
    import ray

    path = write_lines(tmp_path / "rollouts.jsonl", ROWS)
    ray.init(address="local", num_cpus=1, include_dashboard=False)
    try:
        rollouts = ray.data.read_json(str(path), lines=True)
        scored = rollouts.groupby("group").map_groups(ktae.score, batch_format="pyarrow")
        by_note = {(x["group"], x["note"]): list(x["credit"]) for x in scored.take_all()}
    finally:
        ray.shutdown()
    expected = ktae.score(pa.Table.from_pylist(ROWS)).to_pylist()
    assert by_note == {(x["group"], x["note"]): x["credit"] for x in expected}
