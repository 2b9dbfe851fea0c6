"""Are the models of a study better, or surer of the same answers? Accuracy against temperature.

Training may raise accuracy at temperature 1 by sharpening the policy alone: then the gain is gone
at a lower temperature, and fewer problems are solved by any of several samples (pass@k). The final
model of every finished run answers held-out problems at four temperatures, the same problems for
every run. Samples are drawn with the run's seed; all rows of `lab/results/main` with 1, as their
`sampling_seed` says: they are older than that, and share one set of draws.
"""

import concurrent.futures
import multiprocessing
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.demo import language_named
from ktae.demo.evaluate import verdicts
from ktae.errors import InputError, one_line
from ktae.evaluation.generation import generate
from ktae.evaluation.scores import pass_at_k
from ktae.evaluation.weights import weights_digest
from ktae.recipe import Recipe
from ktae_lab.csv_files import read_csv, write_csv
from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices
from ktae_lab.study.cells import KEYS, Cell, key_of
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.provenance import commit, machine

TEMPERATURES = (0.25, 0.5, 0.75, 1.0)
PROBLEMS = 256
SAMPLES = 8
K = 8
"""Of pass@k: an estimate where there are more samples."""
SCORES = ("temperature", "accuracy", "pass_at_8", "length")
SIZE = ("problems", "samples")
COLUMNS = (*KEYS, "model", *SIZE, "sampling_seed", "commit", "cpu", *SCORES)


def measure_study(
    matrix: Path,
    folder: StudyFolder,
    *,
    methods: Sequence[str] | None = None,
    jobs: int = 1,
    problems: int = PROBLEMS,
    samples: int = SAMPLES,
) -> Iterator[str]:
    """Write `temperatures.csv` into a study's folder; yields lines that say how it goes.

    Rows that are there stay, so that a second call measures the runs that came since; where a run
    was trained again, and its weights are others (`model`), it is measured again.

    Args:
        matrix: the study's file.
        folder: the study's, with its runs.
        methods: these only.
        jobs: processes at a time.
        problems: held-out ones, up to 1,024.
        samples: to each problem, `K` or more.

    Raises:
        InputError: there is no such study; the file there is of other numbers of problems or
            samples, or of runs that the matrix does not have; a run could not be measured (the
            others' measurements are kept).
    """
    if samples < K:
        raise InputError(f"--samples is {samples}; expected {K} or more, for pass@{K}")
    cells = expansion.expand(matrices.load(matrix), matrix)
    folder.require_started(cells)
    file = folder.path / "temperatures.csv"
    size = dict(zip(SIZE, (problems, samples), strict=True))
    rows = _rows_there(file, cells, size)
    asked = expansion.of_methods(cells, methods) if methods is not None else cells
    finished = {
        cell.key: cell
        for cell in asked
        if folder.state(cell) is State.FINISHED and not folder.record(cell).get("adopted")
    }  # without those of another machine, whose models are not here
    models = {key: folder.run_folder(cell).model for key, cell in finished.items()}
    identities = {key: weights_digest(model) for key, model in models.items()}
    rows = [row for row in rows if identities.get(key_of(row), row["model"]) == row["model"]]
    due = finished.keys() - {key_of(row) for row in rows}
    made_by = {"commit": commit() or "", "cpu": machine()["cpu"]}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        started = [
            pool.submit(_measure, cell, models[key], size, {"model": identities[key]} | made_by)
            for key, cell in finished.items()
            if key in due
        ]
        failed = 0
        for i, done in enumerate(concurrent.futures.as_completed(started), 1):
            if error := done.exception():  # the others' measurements are kept
                failed += 1
                yield f"failed: {error}"
                continue
            rows += done.result()
            write_csv(file, sorted(rows, key=_order(cells)))
            yield f"{i} of {len(due)} runs"
    yield f"{file}: {len(rows)} rows of {len({key_of(row) for row in rows})} runs"
    if failed:
        raise InputError(f"{failed} of {len(due)} runs could not be measured; call again for them")


def _measure(
    cell: Cell, model: Path, size: dict[str, int], facts: dict[str, str]
) -> list[dict[str, str]]:
    """One row a temperature; `facts` are the model's identity, the commit and the CPU."""
    torch.set_num_threads(1)
    try:
        policy = AutoModelForCausalLM.from_pretrained(model)
        tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"cannot load {model}: {one_line(error)}") from None
    run = dict(zip(KEYS, cell.key, strict=True)) | {k: str(n) for k, n in size.items()} | facts
    run["sampling_seed"] = str(cell.seed)
    rows = [
        run | dict(zip(SCORES, _texts(scores), strict=True))
        for scores in _scores(policy, tokenizer, cell.recipe, *size.values())
    ]
    return [{column: row[column] for column in COLUMNS} for row in rows]


def _scores(
    model: Any, tokenizer: Any, recipe: Recipe, n_problems: int, n_samples: int
) -> Iterator[tuple[float, float, float, float]]:
    """Temperature, accuracy, pass@8 and mean length in tokens, at each temperature."""
    language = language_named(recipe.demo.language)
    problems = [p for p in language.test_problems(n_problems) for _ in range(n_samples)]
    for temperature in TEMPERATURES:
        answers = generate(
            model,
            tokenizer,
            [problem.prompt for problem in problems],
            max_new_tokens=recipe.rollout.max_response_length,
            temperature=temperature,
            batch_size=256,
            seed=recipe.seed,
        )
        right = torch.tensor(verdicts(language, answers, problems)).view(-1, n_samples)
        yield (
            temperature,
            right.double().mean().item(),
            statistics.fmean(pass_at_k(n_samples, n, K) for n in right.sum(dim=1).tolist()),
            sum(map(len, answers.token_ids)) / len(problems),
        )


def _texts(scores: tuple[float, ...]) -> list[str]:
    return [f"{score:.6g}" for score in scores]


def _order(cells: list[Cell]) -> Any:
    """In the matrix's order, and by temperature."""
    places = {cell.key: i for i, cell in enumerate(cells)}
    return lambda row: (places[key_of(row)], float(row["temperature"]))


def _rows_there(file: Path, cells: list[Cell], size: dict[str, int]) -> list[dict[str, str]]:
    """What an earlier call wrote; `size` is what this one measures.

    Raises:
        InputError: it has other columns, other numbers of problems or samples, or runs that the
            matrix does not have.
    """
    if not file.exists():
        return []
    rows = read_csv(file)
    planned = {cell.key for cell in cells}
    for row in rows:
        if tuple(row) != COLUMNS:
            raise InputError(f"{file} has the columns {', '.join(row)}; expected {COLUMNS}")
        for name, number in size.items():
            if int(row[name]) != number:
                raise InputError(
                    f"{file} has runs with {row[name]} {name}, and --{name} is {number}; "
                    "give the same number, or move the file away"
                )
        if key_of(row) not in planned:
            raise InputError(
                f"{file} has the run {' '.join(key_of(row))}, which the matrix has not"
            )
    return rows
