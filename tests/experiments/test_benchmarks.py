"""Benchmarks from a folder, and answers in all their forms."""

from decimal import Decimal
from pathlib import Path

import pytest
from saved_outputs import write_lines

from ktae.errors import InputError
from ktae.experiments.benchmarks import load
from ktae.rollouts.values import parse_answers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (142.0, ("142",)),
        (Decimal("3.00"), ("3",)),  # as databases have numbers
        (["a\n", "a"], ("a",)),
        ([["9.6\n"], "9.7"], ("9.6", "9.7")),
        ("['3.3e-10\\n', '5']", ("3.3e-10", "5")),
        ('["x", "y"]', ("x", "y")),
        ("[0, 1]", ("[0, 1]",)),  # an interval, not a list of texts
        ("[{[]: 1}]", ("[{[]: 1}]",)),  # Python, but for the list as a key
        ("9 * 2 = 18\n#### 18", ("18",)),
    ],
)
def test_answers(answer: object, expected: tuple[str, ...]) -> None:
    assert parse_answers(answer, "row 1") == expected


@pytest.mark.parametrize("answer", [None, True, {}, [], [None], float("inf")])
def test_what_is_no_answer(answer: object) -> None:
    with pytest.raises(InputError, match=r"row 1: answer"):
        parse_answers(answer, "row 1")


def test_another_number_of_problems_is_an_error(tmp_path: Path) -> None:
    write_lines(tmp_path / "aime24.jsonl", [{"problem": "p", "answer": "1"}] * 29)
    with pytest.raises(InputError, match="aime24: 29"):
        load("aime24", tmp_path)


def test_unknown_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'aime'"):
        load("aime", tmp_path)
    with pytest.raises(InputError, match="nowhere"):
        load("amc", tmp_path / "nowhere")
    with pytest.raises(InputError, match="math500"):
        load("math500", tmp_path)
    for file in ("math.jsonl", "math500.parquet", "math500.txt"):
        (tmp_path / file).write_text("")
    with pytest.raises(InputError, match=r"math.jsonl, math500.parquet"):
        load("math500", tmp_path)


def test_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"question": f"q{i}", "answer": str(i)} for i in range(40)]
    asked = []

    def load_dataset(*arguments: object, **keywords: object) -> list[dict[str, str]]:
        asked.append((arguments, keywords))
        return rows

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    problems = load("amc23")
    assert asked == [(("math-ai/amc23", None), {"split": "test"})]
    assert (problems[3].prompt, problems[3].answers) == ("q3", ("3",))
