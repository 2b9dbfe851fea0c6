"""Are the models of a study better, or of lower entropy? Accuracy against temperature.

Training may raise accuracy at temperature 1 by sharpening the policy alone: then the gain is gone
at a lower temperature, and fewer problems are solved by any of several samples (pass@k). The final
model of every finished run answers held-out problems at four temperatures, the same problems for
every run. Samples are drawn with the run's seed; all rows of `lab/results/main` with 1, as their
`sampling_seed` says: they are older than that, and share one set of draws.
"""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ktae.demo import language_named
from ktae.demo.evaluate import verdicts
from ktae.errors import InputError
from ktae.evaluation.generation import generate
from ktae.evaluation.scores import pass_at_k
from ktae.recipe import Recipe
from ktae_lab.measurement import Measurement, Scores

TEMPERATURES = (0.25, 0.5, 0.75, 1.0)
PROBLEMS = 256
SAMPLES = 8
K = 8
"""Of pass@k: an estimate where there are more samples."""


def by_temperature(problems: int = PROBLEMS, samples: int = SAMPLES) -> Measurement:
    """`temperatures.csv`: accuracy, pass@8 and mean length in tokens at each temperature.

    Args:
        problems: held-out ones, up to 1,024.
        samples: to each problem, `K` or more.
    """
    if samples < K:
        raise InputError(f"--samples is {samples}; expected {K} or more, for pass@{K}")
    columns = ("temperature", "accuracy", "pass_at_8", "length")
    size = {"problems": problems, "samples": samples}
    return Measurement("temperatures.csv", size, columns, _scores)


def _scores(
    model: Any, tokenizer: Any, recipe: Recipe, size: Mapping[str, int]
) -> Iterator[Scores]:
    if recipe.task != "demo":
        raise InputError(
            f"task is {recipe.task_source}; expected demo, whose problems are asked here; --best "
            "measures other tasks, too"
        )
    language, n_samples = language_named(recipe.demo.language), size["samples"]
    problems = [p for p in language.test_problems(size["problems"]) for _ in range(n_samples)]
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
        yield {
            "temperature": temperature,
            "accuracy": right.double().mean().item(),
            "pass_at_8": statistics.fmean(
                pass_at_k(n_samples, n, K) for n in right.sum(dim=1).tolist()
            ),
            "length": sum(map(len, answers.token_ids)) / len(problems),
        }
