"""Saved outputs in all the forms that are read."""

import json

import pytest
from saved_outputs import graded, write_rows

from ktae.errors import InputError
from ktae.experiments.outputs import check_complete, read, to_record, with_columns, with_verdicts
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record
from ktae.rollouts.options import ReadOptions


def row(prompt, answer="1", **more):
    return {"prompt": prompt, "answer": answer, "response": answer} | more


def column(path, name, *options):
    return read(path, *options)[name].to_pylist()


def test_the_authors_json(tmp_path):
    entries = [
        {"task_name": "aime", "prompt": "p", "gt": ["7"], "model_output": ["7"], "reward": [1.0]},
        {"task_name": "minerva", "gt": [["9.6\n", "9.7"]], "model_output": ["9.6"], "reward": [1]},
        {"task_name": "x", "gt": ["7", "7"], "model_output": ["a", "b"], "reward": [0, 1]},
    ]
    (tmp_path / "a.json").write_text(json.dumps(entries))
    table = read(tmp_path / "a.json").to_pydict()
    assert table["problem"] == ["aime24/0", "minerva/0", "x/0", "x/0"]
    assert table["benchmark"] == ["aime24", "minerva", "x", "x"]
    assert table["answers"] == [["7"], ["9.6", "9.7"], ["7"], ["7"]]
    assert table["response"] == ["7", "9.6", "a", "b"]
    assert table["reward"] == [1, 1, 0, 1]


def labels(path):
    """Benchmark and problem of each output, also once they are written and read again."""
    table = read(path)
    again = path.parent / "again" / "outputs.parquet"
    again.parent.mkdir(exist_ok=True)
    verdicts = [Verdict(Outcome.CORRECT)] * len(table)
    record.write(to_record(with_verdicts(table, verdicts, "ktae")), again)
    pairs = [
        [*zip(x["benchmark"].to_pylist(), x["problem"].to_pylist(), strict=True)]
        for x in (table, read(again.parent))
    ]
    assert pairs[0] == pairs[1]
    return pairs[0]


@pytest.mark.parametrize(
    ("benchmark", "label", "expected"),
    [
        # Labels that end alike are different problems.
        ("own", "algebra/0", ("own", "own/algebra/0")),
        ("a/b", "a/b/0", ("a/b", "a/b/0")),
        # Only the name of a benchmark splits a label.
        (None, "test/algebra/1.json", ("all", "test/algebra/1.json")),
        (None, "gsm8k/7", ("gsm8k", "gsm8k/7")),
        ("aime", "aime24/7", ("aime24", "aime24/7")),
        (None, "aime/7", ("aime24", "aime24/7")),
    ],
)
def test_problems_and_their_labels(benchmark, label, expected, tmp_path):
    path = write_rows(tmp_path / "a.jsonl", row("p", benchmark=benchmark, group=label))
    assert labels(path) == [expected]


@pytest.mark.parametrize("problem", [{"group": 0}, {}])
def test_the_problems_of_two_steps_are_different_ones(problem, tmp_path):
    """And of files of one step each the same, whichever these are."""
    rows = [row("p", **problem, step=step) for step in (1, 2)]
    (_, first), (_, second) = labels(write_rows(tmp_path / "a.jsonl", *rows))
    assert first.removesuffix("1") == second.removesuffix("2") and first != second
    alone = [labels(write_rows(tmp_path / f"{i}.jsonl", x)) for i, x in enumerate(rows)]
    assert alone[0] == alone[1] and first.startswith(alone[0][0][1])


def test_our_own_record(tmp_path):
    table = graded({"aime24": [[1, None]]}, answers=[["1", "2"]] * 2, model="m", prompt="p")
    more = {"tokens": [5, 9], "finished": [True, False], "reason": ["boxed", "time"]}
    table = with_columns(table, **more, response=["a", "b"], extracted=["1", None])
    record.write(to_record(table), tmp_path / "outputs.parquet")
    again = read(tmp_path)
    for name in ("outcome", "extracted", "grader", "model", "answers", "correct", *more):
        assert again[name].to_pylist() == table[name].to_pylist(), name
    assert again["reward"].to_pylist() == [1.0, None], "undecided is no 0"


def test_lengths_by_a_tokenizer(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    rows = [row("p", response="a b a"), row("p", response="a", token_ids=[1] * 9)]
    path = write_rows(tmp_path / "r.jsonl", *rows)
    assert column(path, "tokens", ReadOptions(tokenizer=words)) == [3, 9]


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (graded({"aime24": [[1]] * 28}), "28, 29"),
        (graded({"aime24": [[1]] * 31}), "aime24"),
        (graded({"own": [[1] * 4, [1] * 4, [1] * 3]}), "own/2"),
    ],
)
def test_duplicate_and_missing_problems(table, place):
    with pytest.raises(InputError, match=place):
        check_complete(table, "f")


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"answer": "1"}, "response"),
        ({"response": "1", "group": 1}, "answer"),
        ({"response": "1", "answer": 1}, "group"),
    ],
)
def test_rows_that_cannot_be_graded(row, place, tmp_path):
    """What is wrong with a file as such, the reader's tests have."""
    with pytest.raises(InputError, match=rf"line 1: .*{place}"):
        read(write_rows(tmp_path / "a.jsonl", row))


@pytest.mark.parametrize("tokens", [[1, 2], -1])
def test_what_another_tool_put_where_ours_would_be(tokens, tmp_path):
    """`extra` of another tool may have the same names; NaN is how pandas writes null."""
    extra = {"tokens": tokens, "finished": "yes", "outcome": "correct", "extracted": 5}
    line = row("p", reward=float("nan"), extra=json.dumps(extra))
    (output,) = read(write_rows(tmp_path / "a.jsonl", line)).to_pylist()
    names = ("tokens", "finished", "reward", "outcome", "extracted")
    assert [output[name] for name in names] == [None] * 5


def write_answers(path, *answers):
    """A problem for each answer, labelled 0, 1, ..., with one output."""
    return write_rows(path, *(row(f"q{x}", x, group=i) for i, x in enumerate(answers)))


def test_each_file_of_a_folder_is_a_benchmark(tmp_path):
    """Called after all of the file's name; alone it is one only if a benchmark is called so."""
    assert column(write_answers(tmp_path / "aime.jsonl", "1"), "problem") == ["aime24/0"]
    unnamed = write_answers(tmp_path / "base.jsonl", "1")
    assert column(unnamed, "problem") == ["0"]
    with pytest.raises(InputError, match=r"base\.jsonl"):
        read(unnamed, benchmarks=["amc"])
    write_answers(tmp_path / "ev" / "aime24.jsonl", "1", "2")
    write_answers(tmp_path / "ev" / "qwen2.5_math.jsonl", "3", "4")
    expected = ["aime24/0", "aime24/1", "qwen2.5_math/0", "qwen2.5_math/1"]
    assert column(tmp_path / "ev", "problem") == expected
    assert len(read(tmp_path / "ev", benchmarks=["aime24"])) == 2


def test_files_that_are_joined_are_one_benchmark(tmp_path):
    for rank in range(2):
        write_answers(tmp_path / f"rank_{rank}.jsonl", "1", "2")
    assert column(tmp_path, "problem", ReadOptions(join=True)) == ["0", "1", "0", "1"]
    write_answers(tmp_path / "rank_1.jsonl", "1", "7")  # another prompt is another problem
    assert len(set(column(tmp_path, "problem", ReadOptions(join=True)))) == 3
    write_rows(tmp_path / "rank_1.jsonl", row("q2", "7", group=1))
    with pytest.raises(InputError, match="problem 1 "):
        read(tmp_path, ReadOptions(join=True))
