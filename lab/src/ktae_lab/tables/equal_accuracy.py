"""Length and entropy at equal accuracy: a table of pages/main.md.

A method that learns more slowly has longer and less sure rollouts at a given step. Has it them at a
given accuracy too? Both runs of a pair are smoothed over `WINDOW` steps and compared at the highest
accuracy that both reach: who stays behind at its best, the other when it first came so far.
"""

import numpy as np

from ktae_lab.tables.page import Table, digits_of, markdown, mean_with_bounds
from ktae_lab.tables.run_curves import WINDOW, Curves, Pair, pairs_of, smoothed, tasks_of

TRAITS = ("length", "entropy")


def table(study: str, baseline: str, *methods: str) -> str:
    """Each method minus the baseline: accuracy and traits at the end, traits at equal accuracy; and
    the steps that are compared there."""
    rows = []
    for task in tasks_of(study):
        for method in methods:
            pairs = [
                Pair(_smoothed(mine), _smoothed(base))
                for mine, base in pairs_of(study, baseline, method, task)
            ]
            cells = [_mean([at_the_end(pair, "accuracy") for pair in pairs], "accuracy")]
            for trait in TRAITS:
                cells.append(_mean([at_the_end(pair, trait) for pair in pairs], trait))
                cells.append(_mean([at_equal_accuracy(pair, trait) for pair in pairs], trait))
            steps = np.mean([[i + WINDOW for i in first_at_equal(pair)] for pair in pairs], axis=0)
            cells.append("{:.0f} / {:.0f}".format(*steps))
            rows.append([task, f"`{method}`", str(len(pairs)), *cells])
    traits = [f"{trait}{where}" for trait in TRAITS for where in ("", " at equal accuracy")]
    head = ["task", "method", "pairs", "accuracy", *traits]
    return markdown([*head, f"at which step it / `{baseline}` has that accuracy"], rows)


def at_equal_accuracy(pair: Pair, trait: str) -> float:
    """A trait's difference at the highest accuracy that both reach."""
    mine, base = (run[trait][i] for run, i in zip(pair, first_at_equal(pair), strict=True))
    return float(mine - base)


def first_at_equal(pair: Pair) -> list[int]:
    """Where each run first has the highest accuracy that both reach."""
    reached = min(run["accuracy"].max() for run in pair)
    return [int(np.argmax(run["accuracy"] >= reached)) for run in pair]


def at_the_end(pair: Pair, column: str) -> float:
    """Over the last `WINDOW` steps."""
    return float(pair.treatment[column][-1] - pair.baseline[column][-1])


def _mean(differences: list[float], column: str) -> str:
    return mean_with_bounds(np.array(differences), digits_of(column))


def _smoothed(curves: Curves) -> Curves:
    return {column: smoothed(curves[column]) for column in ("accuracy", *TRAITS)}


TABLES: dict[str, Table] = {
    "equal-accuracy": table,
}
