"""Does a page claim anything where there is nothing? Pages of dumps whose labels are random.

    python benchmarks/noise_claims.py [--draws 100] [--rollouts FILE]... [--output CSV]

Two kinds of noise: 2,000 groups of 8 responses, each of one of its group's two random templates,
with random labels; and the labels of a dump permuted within its groups. A claim is whatever a page
says of tokens, of groups, of steps, of runs or of an estimator that beats chance.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ktae.report import inputs
from ktae.report.contents import contents
from ktae.report.data import Page
from ktae.rollouts import record
from ktae.rollouts.groups import group_codes

TEMPLATE_WORDS = 12
VOCABULARY = 400


def templates(seed: int, groups: int = 2000, size: int = 8) -> Any:
    """A record of groups with two random templates each, and random labels."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, VOCABULARY, (groups, 2, TEMPLATE_WORDS))
    # A number of its own in each response, so that responses are distinct.
    own = np.arange(groups * size).reshape(groups, size)
    choice, labels = rng.integers(0, 2, (2, groups, size))
    texts = [
        " ".join(f"w{x}" for x in words[g, choice[g, i]]) + f" n{own[g, i]}"
        for g in range(groups)
        for i in range(size)
    ]
    correct = labels.ravel().astype(float)
    return record.conform(
        pa.table({
            "group": [str(g) for g in range(groups) for _ in range(size)],
            "response": texts,
            "reward": correct,
            "correct": correct,
        })
    )  # fmt: skip


def permuted(rollouts: Any, seed: int) -> Any:
    """The record with its verdicts and rewards permuted within groups."""
    rng = np.random.default_rng(seed)
    codes_b, _ = group_codes(rollouts)
    order = np.argsort(codes_b, kind="stable")
    dealt = np.lexsort((rng.random(len(codes_b)), codes_b))
    places = np.empty_like(order)
    places[order] = dealt
    for name in ("correct", "reward"):
        column = rollouts[name].take(pa.array(places))
        rollouts = rollouts.set_column(rollouts.column_names.index(name), name, column)
    return record.conform(rollouts)


def claims(page: Page) -> list[str]:
    """What the page claims, by its findings' keys; `take` for an estimator that it advises."""
    of_counts = {"copies", "empty", "unfinished", "no-answer", "accuracy", "all-alike", "as-text"}
    of_counts |= {"asks-for-more", "overwritten", "paid-without-answer"}
    of_counts |= {"correct-here", "incorrect-here"}
    keys = [x.key for x in page.findings if x.key not in of_counts]
    above_chance = page.advice.verdict in ("take", "no more than a baseline")
    return keys + ["above chance"] * above_chance


def page_of(rollouts: Any) -> Page:
    """What the page of a record says, without grading."""
    return contents(inputs.from_record(rollouts), regrade=False, max_tokens=1).page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--rollouts", type=Path, action="append", default=[])
    parser.add_argument("--output", type=Path, default=Path("noise_claims.csv"))
    arguments = parser.parse_args()
    from estimator import write_rows  # the test loads this file alone

    dumps = {path.name: inputs.load([path]).rollouts for path in arguments.rollouts}
    rows: list[dict[str, Any]] = []
    for seed in range(arguments.draws):
        drawn = {"two templates, random labels": templates(seed)}
        drawn |= {f"{name}, labels permuted": permuted(dump, seed) for name, dump in dumps.items()}
        for name, rollouts in drawn.items():
            claimed = " ".join(claims(page_of(rollouts)))
            rows.append({"noise": name, "seed": seed, "claims": claimed})
    write_rows(arguments.output, rows)
    for name in dict.fromkeys(row["noise"] for row in rows):
        of_noise = [bool(row["claims"]) for row in rows if row["noise"] == name]
        print(f"{name}: {sum(of_noise)} of {len(of_noise)} draws with a claim")


if __name__ == "__main__":
    main()
