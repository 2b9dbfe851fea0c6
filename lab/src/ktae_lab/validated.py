"""Accuracy at the temperature that suits each model best, which validation problems choose.

A policy whose entropy training has lowered is more accurate at temperature 1 and no better
where the user may choose the temperature. So each final model first answers validation problems at
every temperature of a grid; at the best of them it then answers the test problems. The demo's
validation problems are drawn as training problems are, from a seed that no run has; those of other
tasks are other held-out problems. None is a test problem.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.data import tasks
from ktae.demo import language_named
from ktae.demo.evaluate import verdicts
from ktae.errors import InputError
from ktae.evaluation.generation import Generations, generate
from ktae.grading import Outcome
from ktae.recipe import Recipe
from ktae.trainers.trl.tasks import prompt_text
from ktae_lab.measurement import Measurement, Scores
from ktae_lab.study.folder import VALIDATED

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Temperatures; of equal ones the higher wins."""
VALIDATION_SEED = 1_000_000_007
"""Of the validation problems. Studies have seeds below it."""
COLUMNS = (*(f"validation_{temperature:g}" for temperature in GRID), *VALIDATED)


class _Problems(NamedTuple):
    prompts: list[str]
    right: Callable[[Generations, int], Sequence[bool]]
    """Which responses are right, so many to each prompt, one prompt after the other."""


def at_the_best_temperature(problems: int = 1024, samples: int = 4) -> Measurement:
    """`validated.csv`: accuracy on validation problems by temperature, the best temperature, and
    accuracy on test problems there, at 1 and at 0.

    Args:
        problems: test problems; there are half as many validation problems.
        samples: answers to each test problem, and half as many to each validation problem; one of
            each where the temperature is 0.
    """
    if problems < 2 or samples < 2:
        raise InputError(
            f"--problems is {problems} and --samples is {samples}; expected 2 or more, since half "
            "as many choose the temperature"
        )
    size = {"validation_problems": problems // 2, "validation_samples": samples // 2}
    size |= {"problems": problems, "samples": samples}
    return Measurement("validated.csv", size, COLUMNS, _scores)


def _scores(
    model: Any, tokenizer: Any, recipe: Recipe, size: Mapping[str, int]
) -> Iterator[Scores]:
    def accuracy(problems: _Problems, temperature: float, n_samples: int) -> float:
        """Greedy answers are all the same: one will do."""
        n = n_samples if temperature else 1
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
    validation, test = of_task(tokenizer, recipe, size["validation_problems"], size["problems"])
    by_temperature = {t: accuracy(validation, t, size["validation_samples"]) for t in GRID}
    best = max(GRID, key=lambda t: (by_temperature[t], t))
    on_test = {t: accuracy(test, t, size["samples"]) for t in {best, 0.0, 1.0}}
    yield {
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
