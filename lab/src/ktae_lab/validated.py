"""Accuracy at the temperature that suits each model best, which validation problems choose.

A policy whose entropy training has lowered is more accurate at temperature 1 and no better
where the user may choose the temperature. So each final model first answers validation problems at
every temperature of a grid; at the best of them it then answers the test problems. Validation
problems are drawn as training problems are, from a seed that no run has: none is a test problem.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ktae.demo import language_named
from ktae.demo.evaluate import verdicts
from ktae.evaluation.generation import generate
from ktae.recipe import Recipe
from ktae_lab.measurement import Measurement, Scores
from ktae_lab.study.folder import VALIDATED

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Temperatures; of equal ones the higher wins."""
VALIDATION_SEED = 1_000_000_007
"""Of the validation problems. Studies have seeds below it."""
SIZE = {"validation_problems": 512, "validation_samples": 2, "problems": 1024, "samples": 4}
COLUMNS = (*(f"validation_{temperature:g}" for temperature in GRID), *VALIDATED)


def at_the_best_temperature(size: Mapping[str, int] = SIZE) -> Measurement:
    """`validated.csv`: accuracy on validation problems by temperature, the best temperature, and
    accuracy on test problems there, at 1 and at 0."""
    return Measurement("validated.csv", dict(size), COLUMNS, _scores)


def _scores(
    model: Any, tokenizer: Any, recipe: Recipe, size: Mapping[str, int]
) -> Iterator[Scores]:
    language = language_named(recipe.demo.language)

    def accuracy(problems: Sequence[Any], temperature: float, n_samples: int) -> float:
        """Greedy answers are all the same: one will do."""
        asked = [p for p in problems for _ in range(n_samples if temperature else 1)]
        answers = generate(
            model,
            tokenizer,
            [problem.prompt for problem in asked],
            max_new_tokens=recipe.rollout.max_response_length,
            temperature=temperature,
            batch_size=512,
            seed=recipe.seed,
        )
        return float(np.mean(verdicts(language, answers, asked)))

    validation = language.train_problems(size["validation_problems"], VALIDATION_SEED)
    by_temperature = {t: accuracy(validation, t, size["validation_samples"]) for t in GRID}
    best = max(GRID, key=lambda t: (by_temperature[t], t))
    test = language.test_problems(size["problems"])
    on_test = {t: accuracy(test, t, size["samples"]) for t in {best, 0.0, 1.0}}
    yield {
        **{f"validation_{t:g}": value for t, value in by_temperature.items()},
        "temperature": best,
        "accuracy": on_test[best],
        "accuracy_at_1": on_test[1.0],
        "greedy_accuracy": on_test[0.0],
    }
