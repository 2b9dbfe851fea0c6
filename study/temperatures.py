"""Are the models of a study better, or surer of the same answers? Accuracy against temperature.

    python study/temperatures.py study/main.yaml study/results/main [--methods A,B] [--jobs N]

Training may raise accuracy at temperature 1 by sharpening the policy alone: then the gain is gone
at a lower temperature, and fewer problems are solved by any of several samples (pass@k). For the
final model of every finished run: 8 samples to each of 256 held-out problems at four temperatures,
the same problems for every run. Writes `temperatures.csv` into the study's folder; rows that are
there stay, so a second call does the runs that came since, with the same number of problems.
"""

import argparse
import concurrent.futures
import csv
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.demo import LANGUAGES
from ktae.demo.evaluate import verdicts
from ktae.errors import InputError
from ktae.evaluation.generation import generate
from ktae.recipe import Recipe
from ktae.study import cells as expansion
from ktae.study import matrix as matrices
from ktae.study.cells import Cell
from ktae.study.folder import State, StudyFolder
from ktae.study.provenance import commit, machine
from ktae.study.results import write_csv

TEMPERATURES = (0.25, 0.5, 0.75, 1.0)
PROBLEMS = 256
SAMPLES = 8
RUN = ("task", "method", "seed", "base_model")
SCORES = ("temperature", "accuracy", "pass_at_8", "length")
COLUMNS = (*RUN, "problems", "commit", "cpu", *SCORES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matrix", type=Path)
    parser.add_argument("folder", type=Path, help="of the study that `ktae study` made")
    parser.add_argument("--methods", help="these only; names with commas between them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    arguments = parser.parse_args()

    folder = StudyFolder(arguments.folder)
    cells = expansion.expand(matrices.load(arguments.matrix), arguments.matrix)
    folder.require_started(cells)
    file = folder.path / "temperatures.csv"
    rows = _rows_there(file, cells, arguments.problems)
    known = {_key(row) for row in rows}
    due = expansion.of_methods(cells, arguments.methods.split(",")) if arguments.methods else cells
    due = [c for c in due if folder.state(c) is State.FINISHED and _key_of(c) not in known]
    made_by = {"commit": commit() or "", "cpu": machine()["cpu"]}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        started = [
            pool.submit(_measure, cell, folder.run_folder(cell).model, arguments.problems, made_by)
            for cell in due
        ]
        for i, done in enumerate(concurrent.futures.as_completed(started), 1):
            rows += done.result()
            write_csv(file, sorted(rows, key=_order(cells)))
            print(f"{i} of {len(due)} runs", flush=True)
    print(f"{file}: {len(rows)} rows of {len({_key(row) for row in rows})} runs")


def _measure(
    cell: Cell, model: Path, n_problems: int, made_by: dict[str, str]
) -> list[dict[str, str]]:
    """One row a temperature; `made_by` are the commit and the CPU."""
    torch.set_num_threads(1)
    policy = AutoModelForCausalLM.from_pretrained(model)
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    run = dict(zip(RUN, _key_of(cell), strict=True)) | {"problems": str(n_problems)} | made_by
    return [
        run | dict(zip(SCORES, _texts(scores), strict=True))
        for scores in _scores(policy, tokenizer, cell.recipe, n_problems)
    ]


def _scores(
    model: Any, tokenizer: Any, recipe: Recipe, n_problems: int
) -> Iterator[tuple[float, float, float, float]]:
    """Temperature, accuracy, pass@8 and mean length in tokens, at each temperature."""
    language = LANGUAGES[recipe.demo.language]
    problems = [p for p in language.test_problems(n_problems) for _ in range(SAMPLES)]
    for temperature in TEMPERATURES:
        answers = generate(
            model,
            tokenizer,
            [problem.prompt for problem in problems],
            max_new_tokens=recipe.rollout.max_response_length,
            temperature=temperature,
            batch_size=256,
            seed=1,
        )
        right = torch.tensor(verdicts(language, answers, problems)).view(-1, SAMPLES)
        length = sum(map(len, answers.token_ids)) / len(problems)
        yield (
            temperature,
            right.double().mean().item(),
            right.any(dim=1).double().mean().item(),
            length,
        )


def _texts(scores: tuple[float, ...]) -> list[str]:
    return [f"{score:.6g}" for score in scores]


def _key_of(cell: Cell) -> tuple[str, ...]:
    return (cell.task, cell.method, str(cell.seed), cell.base)


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[column] for column in RUN)


def _order(cells: list[Cell]) -> Any:
    """In the matrix's order, and by temperature."""
    places = {_key_of(cell): i for i, cell in enumerate(cells)}
    return lambda row: (places[_key(row)], float(row["temperature"]))


def _rows_there(file: Path, cells: list[Cell], n_problems: int) -> list[dict[str, str]]:
    """What an earlier call wrote.

    Raises:
        InputError: it has other columns, other problems, or runs that the matrix does not have.
    """
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    planned = {_key_of(cell) for cell in cells}
    for row in rows:
        if tuple(row) != COLUMNS:
            raise InputError(f"{file} has the columns {', '.join(row)}; expected {COLUMNS}")
        if int(row["problems"]) != n_problems:
            raise InputError(
                f"{file} has runs with {row['problems']} problems, and --problems is {n_problems}; "
                "give the same number, or move the file away"
            )
        if _key(row) not in planned:
            raise InputError(f"{file} has the run {' '.join(_key(row))}, which the matrix has not")
    return rows


if __name__ == "__main__":
    main()
