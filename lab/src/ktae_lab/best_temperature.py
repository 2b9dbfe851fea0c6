"""Accuracy at the temperature that suits each model best, which validation problems choose.

A policy whose entropy training has lowered is more accurate at temperature 1 and no better
where the user may choose the temperature. So each final model first answers validation problems at
every temperature of a grid; at the best of them it then answers the test problems. The demo's
validation problems are drawn as training problems are, from a seed that no run has; those of other
tasks are other held-out problems. None is a test problem.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.data import tasks
from ktae.demo import language_named
from ktae.demo.evaluate import verdicts
from ktae.demo.model import one_thread
from ktae.errors import InputError, one_line
from ktae.evaluation.generation import Generations, generate
from ktae.evaluation.run import weights_digest
from ktae.grading import Outcome
from ktae.recipe import Recipe
from ktae.trainers.trl.tasks import prompt_text
from ktae_lab.csv_files import read_table, write_table
from ktae_lab.provenance import commit, machine
from ktae_lab.study.cells import KEYS, Cell
from ktae_lab.study.folder import State, StudyFolder

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Temperatures; of equal ones the higher wins."""
VALIDATION_SEED = 1_000_000_007
"""Of the validation problems. Studies have seeds below it."""
SIZE = ("validation_problems", "validation_samples", "problems", "samples")
"""Columns that say how much was asked; a file holds rows of one size."""


class _Problems(NamedTuple):
    prompts: list[str]
    right: Callable[[Generations, int], Sequence[bool]]
    """Which responses are right, so many to each prompt, one prompt after the other."""


def measure_study(
    cells: Sequence[Cell],
    folder: StudyFolder,
    *,
    problems: int = 1024,
    samples: int = 4,
    jobs: int = 1,
    device: str | None = None,
) -> Iterator[str]:
    """Measure the final model of every finished run, into `validated.csv`; yields lines that say
    how it goes.

    Rows that are there stay, so that a second call measures the runs that came since; where a run
    was trained again, and its weights are others (`model`), it is measured again. Samples are drawn
    with the run's seed.

    Args:
        cells: all of the study.
        folder: the study's, with its runs.
        problems: test problems; there are half as many validation problems.
        samples: answers to each test problem, and half as many to each validation problem; one of
            each where the temperature is 0.
        jobs: processes at a time.
        device: as torch names it; there models are in bfloat16 unless it is the processor. None: a
            GPU where there is one.

    Raises:
        InputError: there is no such study or device, the file there is of another size, or a run
            could not be measured (the others' measurements are kept).
    """
    if problems < 2 or samples < 2:
        raise InputError(
            f"--problems is {problems} and --samples is {samples}; expected 2 or more, since half "
            "as many choose the temperature"
        )
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as why:
        raise InputError(f"cannot compute on --device {device}: {one_line(why)}") from None
    folder.require_started(cells)
    size = dict(zip(SIZE, (problems // 2, samples // 2, problems, samples), strict=True))
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    if folder.validated_csv.exists():
        for row in read_table(folder.validated_csv).to_dict("records"):
            if any(int(row[name]) != number for name, number in size.items()):
                raise InputError(
                    f"{folder.validated_csv} has runs of another number of problems or samples; "
                    "give the same numbers, or move the file away"
                )
            rows[tuple(str(row[name]) for name in KEYS)] = row
    # Another model has other weights: a run that was trained again is measured again.
    due = []
    for cell in cells:
        if folder.state(cell) is State.FINISHED:
            model = folder.run_folder(cell).model
            facts = {"model": weights_digest(model), **size, "sampling_seed": cell.seed}
            facts["device"] = device
            if rows.get(cell.key, {}).get("model") != facts["model"]:
                due.append((cell, model, facts | {"commit": commit(), "cpu": machine()["cpu"]}))
    failed = 0
    context = multiprocessing.get_context("spawn")
    executor = (
        concurrent.futures.ThreadPoolExecutor(1)  # this process, which has loaded torch already
        if jobs == 1
        else concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context)
    )
    with executor as pool:
        started = {pool.submit(_measure, *what): what[0] for what in due}
        for i, done in enumerate(concurrent.futures.as_completed(started), 1):
            cell = started[done]
            if error := done.exception():
                failed += 1
                yield f"failed: {cell.name}: {error}"
                continue
            # After each run, in the matrix's order: a call that is stopped has lost nothing.
            rows[cell.key] = done.result()
            in_order = [rows[cell.key] for cell in cells if cell.key in rows]
            write_table(folder.validated_csv, pd.DataFrame(in_order))
            yield f"{i} of {len(due)} runs"
    yield f"{folder.validated_csv}: {len(rows)} runs"
    if failed:
        raise InputError(f"{failed} of {len(due)} runs could not be measured; call again for them")


def _measure(cell: Cell, model: Path, facts: dict[str, Any]) -> dict[str, Any]:
    device = torch.device(facts["device"])
    # As policies are served. In single precision 512 long responses do not fit into 80 GB.
    dtype = "auto" if device.type == "cpu" else torch.bfloat16
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left", trust_remote_code=False)
    key: dict[str, Any] = dict(zip(KEYS, cell.key, strict=True))
    with one_thread():
        scores = scores_of(
            policy.to(device), tokenizer, cell.recipe, [facts[name] for name in SIZE]
        )
    return key | facts | {name: f"{value:.6g}" for name, value in scores.items()}


def scores_of(model: Any, tokenizer: Any, recipe: Recipe, size: Sequence[int]) -> dict[str, float]:
    """Accuracy on validation problems by temperature, the best temperature, and accuracy on test
    problems there, at 1 and at 0; `size` are numbers as in `SIZE`."""
    n_validation, validation_samples, n_test, test_samples = size

    def accuracy(problems: _Problems, temperature: float, n_samples: int) -> float:
        n = n_samples if temperature else 1  # greedy answers are all the same
        answers = generate(
            model,
            tokenizer,
            [prompt for prompt in problems.prompts for _ in range(n)],
            max_new_tokens=recipe.rollout.max_response_length,
            temperature=temperature,
            batch_size=512,
            seed=recipe.seed,
        )
        return float(np.mean(problems.right(answers, n)))

    of_task = _of_demo if recipe.task == "demo" else _of_messages
    validation, test = of_task(tokenizer, recipe, n_validation, n_test)
    by_temperature = {t: accuracy(validation, t, validation_samples) for t in GRID}
    best = max(GRID, key=lambda t: (by_temperature[t], t))
    # The test problems are asked at the chosen temperature, and at 1 and 0 for all models.
    on_test = {t: accuracy(test, t, test_samples) for t in {best, 0.0, 1.0}}
    return {
        **{f"validation_{t:g}": value for t, value in by_temperature.items()},
        "temperature": best,
        "accuracy": on_test[best],
        "accuracy_at_1": on_test[1.0],
        "greedy_accuracy": on_test[0.0],
    }


def _of_demo(_: Any, recipe: Recipe, n_validation: int, n_test: int) -> tuple[_Problems, ...]:
    """Validation problems and test problems."""
    language = language_named(recipe.demo.language)

    def those(problems: Sequence[Any]) -> _Problems:
        def right(answers: Generations, n: int) -> Sequence[bool]:
            return verdicts(language, answers, [p for p in problems for _ in range(n)])

        return _Problems([problem.prompt for problem in problems], right)

    validation = language.train_problems(n_validation, VALIDATION_SEED)
    return those(validation), those(language.test_problems(n_test))


def _of_messages(
    tokenizer: Any, recipe: Recipe, n_validation: int, n_test: int
) -> tuple[_Problems, ...]:
    """The same, for prompts of messages; what cannot be decided is not right.

    Easy problems come first among held-out ones, so they are shuffled before they are dealt, in an
    order that depends on their number alone.

    Raises:
        InputError: the task has fewer held-out problems.
    """
    rows = tasks.held_out_rows(recipe, n_test + n_validation)
    if len(rows) < n_test + n_validation:
        raise InputError(
            f"{n_test} test problems and {n_validation} validation problems are needed, and "
            f"{recipe.task_source} has {len(rows)} held-out ones; lower --problems"
        )
    random.Random(VALIDATION_SEED).shuffle(rows)

    def those(rows: Sequence[tasks.TaskRow]) -> _Problems:
        def right(answers: Generations, n: int) -> Sequence[bool]:
            references = [row.reference for row in rows for _ in range(n)]
            graded = tasks.grade(recipe, answers.texts, references)
            return [verdict.outcome is Outcome.CORRECT for verdict in graded]

        return _Problems([prompt_text(tokenizer, row.prompt) for row in rows], right)

    return those(rows[n_test:]), those(rows[:n_test])
