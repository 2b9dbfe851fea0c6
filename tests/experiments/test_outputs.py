"""Saved outputs in all the forms that are read."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from saved_outputs import write_rows

from ktae.errors import InputError
from ktae.experiments.outputs import (
    Output,
    by_reward,
    check_complete,
    note_stored,
    read,
    stored,
    to_record,
)
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions

CORRECT = Verdict(Outcome.CORRECT)


def row(prompt: str, answer: str = "1", **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "answer": answer, "response": answer} | more


def test_the_authors_json(tmp_path: Path) -> None:
    entries = [
        {"task_name": "aime", "prompt": "p", "gt": ["7"], "model_output": ["7"], "reward": [1.0]},
        {"task_name": "minerva", "gt": [["9.6\n", "9.7"]], "model_output": ["9.6"], "reward": [1]},
        {"task_name": "x", "gt": ["7", "7"], "model_output": ["a", "b"], "reward": [0, 1]},
    ]
    (tmp_path / "a.json").write_text(json.dumps(entries))
    aime, minerva, *others = read(tmp_path / "a.json")
    assert aime == Output("aime24", "0", 0, "7", ("7",), "p", reward=1.0, stored=1.0)
    assert minerva.answers == ("9.6", "9.7")
    assert [(o.group, o.sample, o.response, o.reward) for o in others] == [
        ("x/0", 0, "a", 0.0),
        ("x/0", 1, "b", 1.0),
    ]


def test_files_of_one_benchmark_have_its_problems_in_common(tmp_path: Path) -> None:
    """Whatever they are called; equal prompts are one problem."""
    write_rows(tmp_path / "easy.jsonl", row("a", benchmark="m"), row("b", benchmark="m"))
    write_rows(tmp_path / "hard.jsonl", row("c", benchmark="m"), row("a", benchmark="m"))
    outputs = read(tmp_path)
    assert [o.sample for o in outputs] == [0, 0, 0, 1]
    assert outputs[0].group == outputs[3].group and len({o.group for o in outputs}) == 3


def test_equal_prompts_are_one_problem_where_a_tool_writes_no_label(tmp_path: Path) -> None:
    """As TRL does, with the data set's answer logged beside; one step is no part of a label."""
    common = {"step": 1, "answer": "1", "advantage": 0.0}
    rows = [
        common | {"prompt": p, "completion": f"\\boxed{{{i}}}", "accuracy": float(i == 1)}
        for i, p in enumerate("ppqq")
    ]
    outputs = read(write_rows(tmp_path / "completions_00001.jsonl", *rows))
    found = [(o.prompt, o.sample, o.reward, o.step) for o in outputs]
    assert found == [("p", 0, 0, None), ("p", 1, 1, None), ("q", 0, 0, None), ("q", 1, 0, None)]
    assert outputs[1].response == "\\boxed{1}" and len({o.group for o in outputs}) == 2


def labels(path: Path) -> list[tuple[str, str, str]]:
    """Benchmark, problem and group of each output, also once they are written and read again."""
    outputs = read(path)
    again = path.parent / "again" / "outputs.parquet"
    again.parent.mkdir(exist_ok=True)
    record.write(to_record([o._replace(verdict=CORRECT) for o in outputs]), again)
    both = [
        [(o.benchmark, o.problem, o.group) for o in of_file]
        for of_file in (outputs, read(again.parent))
    ]
    assert both[0] == both[1]
    return both[0]


@pytest.mark.parametrize(
    ("benchmark", "label", "expected"),
    [
        # Labels that end alike are different problems.
        ("own", "algebra/0", ("own", "algebra/0", "own/algebra/0")),
        ("own", "own/0", ("own", "0", "own/0")),
        ("a/b", "a/b/0", ("a/b", "0", "a/b/0")),
        (None, "/0", ("all", "/0", "/0")),
        (None, "all/0", ("all", "all/0", "all/0")),
        # Only the name of a benchmark splits a label.
        (None, "test/algebra/1.json", ("all", "test/algebra/1.json", "test/algebra/1.json")),
        (None, "math500/a/1", ("all", "math500/a/1", "math500/a/1")),
        (None, "gsm8k/7", ("gsm8k", "7", "gsm8k/7")),
        *(
            (benchmark, label, ("aime24", "7", "aime24/7"))
            for benchmark in ("aime", "aime24")
            for label in ("aime/7", "aime24/7", "7")
        ),
    ],
)
def test_problems_and_their_labels(
    benchmark: str | None, label: str, expected: tuple[str, str, str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "a.jsonl", row("p", benchmark=benchmark, group=label))
    assert labels(path) == [expected]


@pytest.mark.parametrize("problem", [{"group": 0}, {}, {"group": "aime24/0"}])
def test_the_problems_of_two_steps_are_different_ones(
    problem: dict[str, Any], tmp_path: Path
) -> None:
    """And of files of one step each the same, whichever these are."""
    rows = [row("p", **problem, step=step) for step in (1, 2)]
    both = labels(write_rows(tmp_path / "a.jsonl", *rows))
    assert [group.rpartition(" of ")[2] for *_, group in both] == ["step 1", "step 2"]
    assert both[0][1] == both[1][1]
    alone = [labels(write_rows(tmp_path / f"{i}.jsonl", x)) for i, x in enumerate(rows)]
    assert alone[0] == alone[1] and "step" not in alone[0][0][2]


def test_a_verdict_comes_before_a_shaped_reward(tmp_path: Path) -> None:
    """verl's score under an overlong penalty, and a reward that only stands in for "unknown"."""
    rewards = ({"score": -0.5, "acc": True}, {"reward": 0.0, "correct": None}, {"reward": 0.25})
    path = write_rows(tmp_path / "r.jsonl", *(row("p", **reward) for reward in rewards))
    assert [o.reward for o in read(path)] == [1.0, None, 0.25]


def test_a_shaped_reward_is_a_verdict_by_the_threshold(tmp_path: Path) -> None:
    """Without one, any reward above 0 counts as correct, and that is noted."""
    rewards = ({"reward": 0.25}, {"reward": 0.75}, {"reward": 0})
    path = write_rows(tmp_path / "r.jsonl", *(row("p", **reward) for reward in rewards))
    notes = Notes(strict=True)
    outputs = read(path)
    note_stored(outputs, notes)
    assert [o.stored for o in outputs] == [1, 1, 0] and notes.counts["values"] == 2
    assert [o.stored for o in read(path, ReadOptions(threshold=0.5))] == [0, 1, 0]


def test_our_own_record(tmp_path: Path) -> None:
    outputs = [
        Output("aime24", "3", 0, "a", ("1", "2"), "p", 5, True, grader="ktae", model="m"),
        Output("aime24", "3", 1, "b", ("1", "2"), "p", 9, False, grader="ktae", model="m"),
    ]
    verdicts = [Verdict(Outcome.CORRECT, "1", "boxed"), Verdict(Outcome.UNDECIDED, None, "time")]
    outputs = [o._replace(verdict=v) for o, v in zip(outputs, verdicts, strict=True)]
    record.write(to_record(outputs), tmp_path / "outputs.parquet")
    # Undecided is no 0 in the file's mean.
    assert read(tmp_path) == [outputs[0]._replace(reward=1.0, stored=1.0), outputs[1]]
    table = record.read_record(tmp_path / "outputs.parquet")
    assert table["correct"].to_pylist() == [1.0, None]


def test_what_the_file_says_as_a_verdict() -> None:
    """A verdict that is stored keeps its grader, and comes before the reward."""
    output = Output("x", "1", 0, "", ("1",), reward=1.0, stored=1.0)
    graded = output._replace(verdict=Verdict(Outcome.INCORRECT), grader="ktae")
    assert [(o.correct, o.grader) for o in stored([output, graded])] == [(1, "stored"), (0, "ktae")]
    assert [o.correct for o in by_reward([graded, output._replace(stored=None)])] == [1, None]
    with pytest.raises(InputError, match="x/1"):
        stored([output._replace(stored=None)])


def test_lengths_by_a_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    rows = [row("p", response="a b a"), row("p", response="a", token_ids=[1] * 9)]
    path = write_rows(tmp_path / "r.jsonl", *rows)
    assert [o.tokens for o in read(path, ReadOptions(tokenizer=words))] == [3, 9]


def outputs_of(counts: dict[str, int], name: str = "aime24") -> list[Output]:
    return [Output(name, p, i, "", ("1",)) for p, n in counts.items() for i in range(n)]


@pytest.mark.parametrize(
    ("outputs", "place"),
    [
        (outputs_of({str(i): 1 for i in range(30) if i not in (4, 9)}), "4, 9"),
        (outputs_of({str(i): 1 for i in range(31)}), "aime24"),
        (outputs_of({"a": 4, "b": 4, "c": 3}, "own"), "own/c"),
    ],
)
def test_duplicate_and_missing_problems(outputs: list[Output], place: str) -> None:
    with pytest.raises(InputError, match=place):
        check_complete(outputs, "f")


ROW = {"response": "1", "answer": 1, "group": 1}


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"answer": "1"}, "response"),
        ({"response": "1", "group": 1}, "answer"),
        ({"response": 1, "answer": 1, "group": 1}, "response"),
        ({"response": "1", "answer": 1}, "group"),
        (ROW | {"reward": "good"}, "reward"),
        (ROW | {"answer": math.inf}, "answer"),
    ],
)
def test_rows_that_cannot_be_graded(row: dict[str, Any], place: str, tmp_path: Path) -> None:
    """What is wrong with a file as such, the reader's tests have."""
    with pytest.raises(InputError, match=rf"line 1: .*{place}"):
        read(write_rows(tmp_path / "a.jsonl", row))


@pytest.mark.parametrize("tokens", [[1, 2], -1, 1 << 99, True])
def test_what_another_tool_put_where_ours_would_be(tokens: object, tmp_path: Path) -> None:
    """`extra` of another tool may have the same names; NaN is how pandas writes null."""
    extra = {"tokens": tokens, "finished": "yes", "outcome": "correct", "extracted": 5}
    line = row("p", reward=float("nan"), extra=json.dumps(extra))
    (output,) = read(write_rows(tmp_path / "a.jsonl", line))
    assert (output.tokens, output.finished, output.reward) == (None, None, None)
    assert output.verdict is None, "nobody is named whose it is"


def write_answers(path: Path, *answers: str) -> Path:
    """A problem for each answer, labelled 0, 1, ..., with one output."""
    return write_rows(path, *(row(f"q{x}", x, group=i) for i, x in enumerate(answers)))


def test_each_file_of_a_folder_is_a_benchmark(tmp_path: Path) -> None:
    """Called after all of the file's name: labels and answers of two files are not the same.

    Alone it is one only if a benchmark is called so.
    """
    assert read(write_answers(tmp_path / "aime.jsonl", "1"))[0].group == "aime24/0"
    unnamed = write_answers(tmp_path / "base.jsonl", "1")
    assert read(unnamed)[0].group == "0"
    assert len(read(unnamed, benchmarks=["all"])) == 1
    with pytest.raises(InputError, match=r"base\.jsonl"):
        read(unnamed, benchmarks=["amc"])
    write_answers(tmp_path / "ev" / "aime24.jsonl", "1", "2")
    write_answers(tmp_path / "ev" / "qwen2.5_math.jsonl", "3", "4")
    expected = ["aime24/0", "aime24/1", "qwen2.5_math/0", "qwen2.5_math/1"]
    assert [x.group for x in read(tmp_path / "ev")] == expected


def test_files_of_seeds_are_told_from_files_of_benchmarks(tmp_path: Path) -> None:
    """The advice to join them is given where the same is asked under each label."""
    notes = Notes(strict=True)
    for seed in range(3):
        write_answers(tmp_path / "seeds" / f"{seed}.jsonl", "5", "6")
    read(tmp_path / "seeds", notes=notes)
    assert notes.counts["apart"] == 2, "problems, and not outputs"
    notes = Notes(strict=True)
    write_answers(tmp_path / "ev" / "algebra.jsonl", "1", "2")
    write_answers(tmp_path / "ev" / "geometry.jsonl", "1", "3")
    read(tmp_path / "ev", notes=notes)
    for name in ("easy", "hard"):  # the rows name their benchmark
        write_rows(tmp_path / "one" / f"{name}.jsonl", row("a", benchmark="m"))
    read(tmp_path / "one", notes=notes)
    assert not notes.counts["apart"]


def test_files_that_are_joined_are_one_benchmark(tmp_path: Path) -> None:
    for rank in range(2):
        write_answers(tmp_path / "ev" / f"rank_{rank}.jsonl", "1", "2")
    notes = Notes(strict=True)
    joined = read(tmp_path / "ev", ReadOptions(join=True), notes=notes)
    assert notes.counts["join"] == 2
    assert [(x.group, x.sample) for x in joined] == [("0", 0), ("1", 0), ("0", 1), ("1", 1)]
    write_answers(tmp_path / "ev" / "rank_1.jsonl", "1", "7")
    with pytest.raises(InputError, match="problem 1 "):
        read(tmp_path / "ev", ReadOptions(join=True))
