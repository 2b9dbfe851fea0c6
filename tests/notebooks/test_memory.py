"""Tables as notebooks have them: every kind comes in, and comes back with credit."""

import importlib
import math

import pyarrow as pa
import pytest
from saved_outputs import write_lines

import ktae
from ktae import InputError
from ktae.report import inputs, scoring
from ktae.report.frame import frame_of

ROWS = [
    {"group": "g", "response": text, "reward": reward, "note": i}
    for i, (text, reward) in enumerate(
        [("it is 4", 1.0), ("maybe 5", 0.0), ("so it is 4", 1.0), ("maybe <b>6</b>", 0.0)]
    )
]
KINDS = {
    "list": lambda rows: rows,
    "pyarrow": pa.Table.from_pylist,
    "pandas": lambda rows: importlib.import_module("pandas").DataFrame(rows),
    "polars": lambda rows: importlib.import_module("polars").DataFrame(rows),
    "datasets": lambda rows: importlib.import_module("datasets").Dataset.from_list(rows),
}


def as_rows(table):
    """The rows of a table of any kind, its arrays as lists."""
    if hasattr(table, "to_dict") and hasattr(table, "iloc"):
        table = pa.Table.from_pandas(table, preserve_index=False)
    elif hasattr(table, "with_format"):
        table = table.with_format("arrow")[:]
    return table if isinstance(table, list) else pa.table(table).to_pylist()


@pytest.fixture(params=KINDS)
def kind(request):
    if request.param in ("pandas", "polars", "datasets"):
        pytest.importorskip(request.param, reason=f"needs {request.param}")
    return KINDS[request.param]


def test_the_same_type_comes_back_with_the_credit_of_the_command(kind, tmp_path):
    table = kind(ROWS)
    scored = ktae.score(table, "paper")
    assert type(scored) is type(table)
    dump = inputs.load(write_lines(tmp_path / "r.jsonl", ROWS))
    frame = frame_of(dump)
    expected = scoring.credit_column(frame, scoring.credit_of(frame, ktae.preset("paper")))
    rows = as_rows(scored)
    assert [row["credit"] for row in rows] == expected.to_pylist()
    assert ["".join(row["words"]) for row in rows] == [row["response"] for row in ROWS]
    assert [row["note"] for row in rows] == [0, 1, 2, 3]
    again = as_rows(ktae.score(scored, "paper"))  # token ids are there now
    assert [row["credit"] for row in again] == expected.to_pylist()


def test_rows_of_a_tool_are_read_and_scored(kind):
    rows = [
        {"prompt": "2 + 2?", "completion": x["response"], "reward": x["reward"], "extra": x["note"]}
        for x in ROWS
    ]
    table = kind(rows)
    read = ktae.read_rollouts(table)
    assert type(read) is type(table)
    assert [row["response"] for row in as_rows(read)] == [row["response"] for row in ROWS]
    scored = as_rows(ktae.score(read))
    assert [any(row["credit"]) for row in scored] == [True] * 4


def test_a_bad_row_is_named_by_its_place(kind):
    rows = [*ROWS, {"group": "g", "response": "x", "reward": math.inf, "note": 4}]
    with pytest.raises(InputError) as error:
        ktae.read_rollouts(kind(rows))
    assert "row 5:" in str(error.value)


def test_rows_need_not_have_the_same_fields():
    rows = [ROWS[0], *(row | {"correct": 0, "tag": "t"} for row in ROWS[1:])]
    scored = ktae.score([rows[0] | {"correct": 1}, *rows[1:]])
    assert scored[0]["tag"] is None and scored[1]["tag"] == "t"
    assert ktae.score(rows)[1]["correct"] == 0


@pytest.mark.parametrize("wrong", [{"reward": [1.0]}, {"reward": "much"}])
def test_rewards_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(InputError):
        ktae.score([row | wrong for row in ROWS])
    assert not any(
        map(any, (row["credit"] for row in ktae.score([x | {"reward": None} for x in ROWS])))
    )


def test_the_index_of_a_frame_stays():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(ROWS, index=[7, 3, 5, 1])
    assert list(ktae.score(frame).index) == [7, 3, 5, 1]
    assert list(ktae.score(frame[frame["note"] > 1])["note"]) == [2, 3]


def test_a_group_is_shown_as_escaped_html(kind):
    html = ktae.show_group(kind(ROWS), "g", "paper")._repr_html_()
    assert "background:#" in html and "maybe" in html
    assert "<b>" not in html and "&lt;" in html
    with pytest.raises(InputError):
        ktae.show_group(kind(ROWS), "another")


def test_a_group_of_a_file_is_shown(tmp_path):
    path = write_lines(tmp_path / "r.jsonl", ROWS)
    shown = ktae.show_group(path, credit="paper")
    assert shown._repr_html_() == ktae.show_group(ROWS, credit="paper")._repr_html_()
    assert "'g'" in repr(shown)


def test_held_out_pairs_take_a_list_of_names_and_without_a_tokenizer_are_of_words():
    rows = [
        {"group": g, "response": f"{'yes' if i % 2 else 'no'} {i} {g}", "reward": float(i % 2)}
        for g in range(3)
        for i in range(6)
    ]
    of_text = ktae.held_out_pairs(rows, ["paper"])
    of_words = ktae.held_out_pairs(ktae.score(rows), {"paper": "paper"})
    assert of_text.estimators[0].name == "paper"
    assert of_text.estimators[0].auc == of_words.estimators[0].auc
    assert of_text.estimators[0].auc.value == 1  # yes and no tell


def test_the_package_s_names_are_its_public_ones():
    assert dir(ktae) == sorted(ktae.__all__)
