"""Saved outputs in all the forms that are read."""

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktae.errors import InputError
from ktae.evaluation.benchmarks import PAPER
from ktae.evaluation.outputs import Output, check_complete, read, to_record, with_tokens
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record
from ktae.rollouts.options import ReadOptions

AUTHORS = [
    {
        "task_name": "aime",
        "prompt": f"p{i}",
        "gt": ["7"],
        "model_output": [f"\\boxed{{{i}}}"],
        "reward": [float(i == 7)],
    }
    for i in range(30)
] + [
    {
        "task_name": "minerva",
        "prompt": "q",
        "gt": [["9.6\n", "9.7"]],
        "model_output": ["\\boxed{9.6}"],
        "reward": [1.0],
    }
]


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_authors_json(tmp_path: Path) -> None:
    outputs = read(write_json(tmp_path / "GRPO.json", AUTHORS))
    assert len(outputs) == 31
    assert outputs[7] == Output("aime24", "7", 0, "\\boxed{7}", ("7",), "p7", None, None, 1.0)
    assert outputs[30].answers == ("9.6", "9.7")
    entry = {"task_name": "x", "gt": ["7", "7"], "model_output": ["a", "b"], "reward": [0, 1]}
    outputs = read(write_json(tmp_path / "x.json", [entry]))
    assert [(o.problem, o.sample, o.response, o.reward) for o in outputs] == [
        ("0", 0, "a", 0.0),
        ("0", 1, "b", 1.0),
    ]


def written(folder: Path, **files: list[dict[str, Any]]) -> Path:
    for name, rows in files.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name.replace('DOT', '.')}.jsonl").write_text(text, encoding="utf-8")
    return folder


def row(prompt: str, answer: str, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "answer": answer, "response": answer} | more


def test_files_of_one_benchmark_have_its_problems_in_common(tmp_path: Path) -> None:
    """Whatever they are called: rows that name the benchmark count on."""
    easy = [row("a", "2", benchmark="m"), row("b", "3", benchmark="m")]
    hard = [row("c", "18", benchmark="m"), row("a", "2", benchmark="m")]
    outputs = read(written(tmp_path, easy=easy, hard=hard))
    assert [(o.prompt, o.benchmark, o.problem, o.sample) for o in outputs] == [
        ("a", "m", "0", 0), ("b", "m", "1", 0), ("c", "m", "2", 0), ("a", "m", "0", 1),
    ]  # fmt: skip


def test_trl_completions(tmp_path: Path) -> None:
    """As TRL 1.16 writes them, with the data set's answer logged beside."""
    table = pa.table(
        {
            "step": [1, 1, 1, 1],
            "prompt": [[{"role": "user", "content": "p"}]] * 2
            + [[{"role": "user", "content": "q"}]] * 2,
            "completion": [[{"role": "assistant", "content": f"\\boxed{{{i}}}"}] for i in range(4)],
            "accuracy": [0.0, 1.0, 0.0, 0.0],
            "answer": ["1"] * 4,
            "advantage": [0.0] * 4,
        }
    )
    pq.write_table(table, tmp_path / "completions_00001.parquet")
    outputs = read(tmp_path / "completions_00001.parquet")
    assert {o.benchmark for o in outputs} == {"completions_00001"}
    assert [(o.group, o.sample, o.reward) for o in outputs] == [
        ("0", 0, 0.0), ("0", 1, 1.0), ("1", 0, 0.0), ("1", 1, 0.0)
    ]  # fmt: skip
    assert outputs[1].response == "\\boxed{1}"


def test_verl_rollout_dump(tmp_path: Path) -> None:
    rows = [{"input": "p", "output": "\\boxed{1}", "gts": "1", "score": 1.0, "step": 5}] * 2
    (tmp_path / "5.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outputs = read(tmp_path / "5.jsonl")
    assert [(o.group, o.sample, o.answers, o.reward) for o in outputs] == [
        ("0", 0, ("1",), 1.0),
        ("0", 1, ("1",), 1.0),
    ]


def read_rows(path: Path, rows: list[dict[str, Any]]) -> list[Output]:
    """Rows read from `path`; each is given a response and an answer."""
    plain = {"response": "\\boxed{1}", "answer": "1"}
    path.write_text("".join(json.dumps(plain | row) + "\n" for row in rows), encoding="utf-8")
    return read(path)


def problems_of(path: Path, rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    outputs = read_rows(path, rows)
    assert {o.sample for o in outputs} == {0}, "each row is a problem of its own here"
    found = [(o.benchmark, o.problem, o.group) for o in outputs]
    verdicts = [Verdict(Outcome.CORRECT)] * len(outputs)
    record.write(to_record(outputs, verdicts, "m"), path.parent / "outputs.parquet")
    assert [(o.benchmark, o.problem, o.group) for o in read(path.parent)] == found
    return found


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [{"benchmark": "own", "group": x} for x in ("algebra/0", "geometry/0", "own/0")],
            [
                ("own", "algebra/0", "own/algebra/0"),
                ("own", "geometry/0", "own/geometry/0"),
                ("own", "0", "own/0"),
            ],
            id="labels that end alike are different problems",
        ),
        pytest.param(
            [{"group": "/0"}, {"group": "0"}], [("a", "/0", "/0"), ("a", "0", "0")], id="a slash"
        ),
        pytest.param(
            [{"group": x} for x in ("test/algebra/1.json", "gsm8k/7", "math500/a/1")],
            [
                ("a", "test/algebra/1.json", "test/algebra/1.json"),
                ("gsm8k", "7", "gsm8k/7"),
                ("a", "math500/a/1", "math500/a/1"),
            ],
            id="only the name of a benchmark splits a label",
        ),
        pytest.param(
            [{"group": "7"}, {"prompt": "p"}, {"group": "x/7"}],
            [("a", "7", "7"), ("a", "0", "0"), ("a", "x/7", "x/7")],
            id="a file's name is no part of its problems",
        ),
        *(
            ([{"benchmark": benchmark, "group": label}], [("aime24", "7", "aime24/7")])
            for benchmark in ("aime", "aime24")
            for label in ("aime/7", "aime24/7", "7")
        ),
    ],
)
def test_problems_and_their_labels(
    rows: list[dict[str, Any]], expected: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    assert problems_of(tmp_path / "a.jsonl", rows) == expected


@pytest.mark.parametrize("problem", [{"group": 0}, {"prompt": "p"}, {"group": "aime24/0"}])
def test_the_problems_of_two_steps_are_different_ones(
    problem: dict[str, Any], tmp_path: Path
) -> None:
    """And of files of one step each the same, whichever these are."""
    both = problems_of(tmp_path / "a.jsonl", [problem | {"step": step} for step in (1, 2)])
    assert [group.rpartition("/")[2] for *_, group in both] == ["0 of step 1", "0 of step 2"]
    if "prompt" in problem:
        again = read(tmp_path)
        assert [(o.numbered, o.step) for o in again] == [(True, "1"), (True, "2")]
    alone = [problems_of(tmp_path / "a.jsonl", [problem | {"step": step}]) for step in (1, 2)]
    assert alone[0] == alone[1]
    assert alone[0][0][1] == "0"


def test_the_authors_file_without_a_task_s_name(tmp_path: Path) -> None:
    (entry,) = read(write_json(tmp_path / "new.json", [{"gt": ["7"], "model_output": ["a"]}]))
    assert (entry.benchmark, entry.group) == ("new", "0")


def test_a_verdict_comes_before_a_shaped_reward(tmp_path: Path) -> None:
    """verl's score under an overlong penalty, and a reward that only stands in for "unknown"."""
    plain = {"group": "x/1", "response": "", "answer": "1"}
    rows = [
        plain | {"score": -0.5, "acc": True},
        plain | {"reward": 0.0, "correct": None},
        plain | {"reward": 0.25},
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [o.reward for o in read(path)] == [1.0, None, 0.25]


def test_our_own_record_and_folder(tmp_path: Path) -> None:
    outputs = [
        Output("aime24", "3", 0, "a", ("1", "2"), "p", 5, True),
        Output("aime24", "3", 1, "b", ("1", "2"), "p", 9, False),
    ]
    verdicts = [Verdict(Outcome.CORRECT, "1", "boxed"), Verdict(Outcome.UNDECIDED, None, "time")]
    record.write(to_record(outputs, verdicts, "m", "ktae"), tmp_path / "outputs.parquet")
    back = read(tmp_path)
    assert [o.verdict for o in back] == verdicts
    assert [o.reward for o in back] == [1.0, None]  # undecided is no 0 in the file's mean
    assert {(o.model, o.grader) for o in back} == {("m", "ktae")}
    assert [o._replace(verdict=None, reward=None, model=None, grader=None) for o in back] == outputs
    table = record.read_record(tmp_path / "outputs.parquet")
    assert table["correct"].to_pylist() == [1.0, None]


def test_a_record_keeps_what_its_input_says(tmp_path: Path) -> None:
    """The model of each output, where it was not generated here; a stored verdict's grader."""
    rows = [{"group": "x/1", "model": "m"}, {"group": "x/2"}]
    outputs = read_rows(tmp_path / "a.jsonl", rows)
    assert [o.grader for o in outputs] == [None, None]
    verdicts = [Verdict(Outcome.CORRECT)] * 2
    for given, kept in (("stored", "stored"), ("ktae", "ktae"), ("stored", "ktae")):
        record.write(to_record(outputs, verdicts, None, given), tmp_path / "outputs.parquet")
        outputs = read(tmp_path)
        assert [o.grader for o in outputs] == [kept] * 2
    table = record.read_record(tmp_path / "outputs.parquet")
    assert table["model"].to_pylist() == ["m", None]


def test_lengths_by_a_tokenizer() -> None:
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words)
    outputs = [Output("x", "0", 0, "a b a", ("1",)), Output("x", "1", 0, "a", ("1",), tokens=9)]
    assert [o.tokens for o in with_tokens(outputs, tokenizer)] == [3, 9]


def outputs_of(counts: dict[str, int], name: str = "aime24") -> list[Output]:
    return [Output(name, p, i, "", ("1",)) for p, n in counts.items() for i in range(n)]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            outputs_of({str(i): 1 for i in range(30) if i not in (4, 9)}),
            r"f: 28 problems of aime24; expected 30 \(missing: 4, 9\); --partial accepts that",
        ),
        (outputs_of({str(i): 1 for i in range(31)}), "f: 31 problems of aime24; expected 30"),
        (
            outputs_of({str(i): 1 + (i == 5) for i in range(30)}),
            "f: problem aime24/5 has 2 outputs, most have 1; is it there twice, or is one missing",
        ),
        (outputs_of({"a": 4, "b": 4, "c": 3}, "own"), "problem own/c has 3 outputs, most have 4"),
    ],
)
def test_duplicate_and_missing_problems(outputs: list[Output], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_complete(outputs, "f")


def test_complete_files_pass(shared_data: Path) -> None:
    outputs = read(shared_data / "rollouts" / "ktae_eval_7B_k1.jsonl.gz")
    check_complete(outputs, "f")
    assert len(outputs) == 1560
    assert {o.benchmark for o in outputs} == set(PAPER)
    assert all(o.reward in (0, 1) for o in outputs)


ROW = {"response": "1", "answer": 1, "group": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answer": "1"}, "line 1: no field 'response'; its fields"),
        ({"response": "1"}, "line 1: no answer or answers or gts"),
        ({"response": 1, "answer": 1}, "line 1: response is no text"),
        ({"response": "1", "answer": 1}, "line 1: neither group nor prompt"),
        (ROW | {"reward": "good"}, "line 1: reward is 'good'; expected a finite number"),
        (ROW | {"reward": 10**400}, r"line 1: reward is 10+; expected a finite number"),
        (ROW | {"answer": math.inf}, "line 1: answer is inf; expected text, a number"),
        (ROW | {"answer": "\ud800"}, "line 1: answer holds '"),
        (ROW | {"extra": "{"}, "line 1: extra is '{'; expected a JSON object"),
        (
            ROW | {"extra": '{"outcome": "correct", "extracted": "\\ud800"}'},
            "line 1: extra.extracted holds '",
        ),
    ],
)
def test_rows_that_cannot_be_graded(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    """What is wrong with a file as such, the reader's tests have."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"a.jsonl is empty"):
        read(path)


def test_what_another_tool_put_where_ours_would_be(tmp_path: Path) -> None:
    """`extra` of another tool may have the same names; NaN is how pandas writes null."""
    extra = {"tokens": [1, 2], "finished": "yes", "outcome": "correct", "extracted": 5}
    row = {"group": "a/1", "response": "1", "answer": "1", "reward": float("nan")}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row | {"extra": json.dumps(extra)}))
    (output,) = read(path)
    assert (output.tokens, output.finished, output.reward) == (None, None, None)
    assert output.verdict == Verdict(Outcome.CORRECT, None, "")


def write_answers(path: Path, *answers: str) -> None:
    """A problem for each answer, labelled 0, 1, ..., with one output."""
    path.parent.mkdir(exist_ok=True)
    rows = [{"group": i, "response": "a", "answer": x} for i, x in enumerate(answers)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_each_file_of_a_folder_is_a_benchmark(tmp_path: Path) -> None:
    """Called after all of the file's name: labels and answers of two files are not the same."""
    write_answers(tmp_path / "ev" / "aime24.jsonl", "1", "2")
    write_answers(tmp_path / "ev" / "qwen2.5_math.jsonl", "3", "4")
    found = read(tmp_path / "ev")
    expected = ["aime24/0", "aime24/1", "qwen2.5_math/0", "qwen2.5_math/1"]
    assert [(x.group, x.sample) for x in found] == [(group, 0) for group in expected]
    verdicts = [Verdict(Outcome.CORRECT)] * 4
    record.write(to_record(found, verdicts, "m"), tmp_path / "outputs.parquet")
    assert [x.group for x in read(tmp_path)] == expected


def test_files_that_are_joined_are_one_benchmark(tmp_path: Path) -> None:
    for rank in range(2):
        write_answers(tmp_path / "ev" / f"rank_{rank}.jsonl", "1", "2")
    joined = read(tmp_path / "ev", ReadOptions(join=True))
    assert [(x.benchmark, x.group, x.sample) for x in joined] == [
        ("ev", "0", 0), ("ev", "1", 0), ("ev", "0", 1), ("ev", "1", 1)
    ]  # fmt: skip


def test_a_problem_with_two_answers_is_refused(tmp_path: Path) -> None:
    for rank, answer in enumerate(("1", "7")):
        write_answers(tmp_path / "ev" / f"rank_{rank}.jsonl", answer)
    message = r"rank_1.jsonl, line 1: problem 0 accepts '7', in an earlier row '1'; expected the"
    with pytest.raises(InputError, match=message):
        read(tmp_path / "ev", ReadOptions(join=True))


def test_numbers_as_databases_and_pandas_have_them(tmp_path: Path) -> None:
    columns = {
        "group": ["0", "0", "1", "1"],
        "step": [0.0, 1.0, 0.0, 1.0],
        "response": ["a"] * 4,
        "answer": [Decimal("3"), Decimal("3"), Decimal("1.5"), Decimal("1.5")],
        "reward": [Decimal("1.00"), Decimal("0.00"), None, Decimal("0.50")],
    }
    path = tmp_path / "saved.parquet"
    pq.write_table(pa.table(columns), path)
    found = read(path)
    assert [o.reward for o in found] == [1.0, 0.0, None, 0.5]
    assert [o.answers for o in found] == [("3",), ("3",), ("1.5",), ("1.5",)]
    lines = tmp_path / "saved.jsonl"
    rows = [{"group": "0", "step": i, "response": "a", "answer": 3, "reward": 0} for i in (0, 1)]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert {o.problem for o in read(lines)} == {o.problem for o in found if o.answers == ("3",)}
