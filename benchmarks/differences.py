"""What each difference between the paper, its authors' code and ktae does to the credit.

    python benchmarks/differences.py                                   # the demo's base model
    python benchmarks/differences.py FILE --tokenizer FOLDER --append  # a rollout dump

Every row of results/differences.csv compares one change with the preset `paper`, over all tokens of
the mixed groups. `tables of 16` counts, over all 935 contingency tables of 16 rollouts with both
classes, what single precision makes of Fisher's test.
"""

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bias import G, sample

from ktae import Estimator, credit_table, preset, statistics
from ktae.backends import CreditTable
from ktae.demo import SUMS
from ktae.demo.model import make_tokenizer
from ktae.estimators import KTAE, Ignoring, Scaled
from ktae.estimators.transforms import ignored_by
from ktae.rollouts import record
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.readers import read
from ktae.rollouts.tokens import load_tokenizer, tokenize
from ktae.tables import largest_credit

PAPER = KTAE()
CHANGES: dict[str, Estimator] = {
    "released": preset("released"),
    "h2 = 1": KTAE(h2=1.0),
    "divided by h1 + h2": KTAE(normalize=True),
    "doubled": Scaled(PAPER, 2.0),
    "fisher = point": KTAE(fisher="point"),
    "float32 Fisher": KTAE(fisher="float32"),
    "mean lengths": KTAE(lengths="mean"),
    "eps = 1e-3": KTAE(eps=1e-3),
    "without frequencies": KTAE(h3=0.0),
}
MOVED = 0.05
SATURATED = 0.9  # of the largest credit that there can be
COLUMNS = (
    "rollouts",
    "change",
    "groups",
    "tokens",
    "mean_abs_credit",
    "saturated",
    "mean_abs_difference",
    "moved",
    "other_sign",
    "note",
)


class Rollouts(NamedTuple):
    """Arguments of `credit_table`, and the end-of-sequence token if there is one."""

    token_ids: np.ndarray
    mask: np.ndarray
    correct: np.ndarray
    groups: np.ndarray
    end: int | None


class Counted(NamedTuple):
    """The key-token table of the mixed groups, and what it does not hold."""

    table: CreditTable
    occurrences: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="(default: sample from the demo)")
    parser.add_argument("--tokenizer")
    parser.add_argument("--append", action="store_true", help="to the CSV, instead of anew")
    parser.add_argument(
        "--csv", type=Path, default=Path(__file__).parent / "results/differences.csv"
    )
    arguments = parser.parse_args()
    if arguments.file:
        name = arguments.file.name.partition(".")[0]
        rollouts = from_file(arguments.file, arguments.tokenizer)
    else:
        name, rollouts = "demo", from_demo()
    rows = [] if arguments.append else [single_precision_tables()]
    rows += compare(name, rollouts)
    with arguments.csv.open("a" if arguments.append else "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not arguments.append:
            writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


def from_demo(n_groups: int = 256) -> Rollouts:
    """Rollouts of the demo's base model, graded."""
    tokenizer = make_tokenizer(SUMS)
    ids, mask, groups = sample(n_groups)
    problems = SUMS.train_problems(n_groups, 1)
    correct = [
        SUMS.is_correct(
            tokenizer.decode(row[counted]),
            problems[group].answer,
            finished=bool(row[counted][-1] == tokenizer.eos_token_id),
        )
        for row, counted, group in zip(ids, mask, groups, strict=True)
    ]
    assert len(ids) == n_groups * G
    return Rollouts(ids, mask, np.array(correct), groups, tokenizer.eos_token_id)


def from_file(path: Path, tokenizer: str | None) -> Rollouts:
    """A dump's rollouts, tokenised where it holds text."""
    rollouts = read([path], ReadOptions(pool_models=True))
    if rollouts["token_ids"].null_count:
        loaded = load_tokenizer(tokenizer or "")
        lists = tokenize(loaded, rollouts["response"].to_pylist())
    else:
        lists = rollouts["token_ids"].to_pylist()
    ids, mask = record.pad([list(row) for row in lists])
    correct = np.array([np.nan if x is None else x for x in rollouts["correct"].to_pylist()], float)
    return Rollouts(ids, mask, correct, np.array(rollouts["group"].to_pylist()), None)


def compare(name: str, rollouts: Rollouts) -> list[dict[str, str]]:
    counted = count(rollouts)
    paper = counted.table.credit
    changes = dict(CHANGES)
    if rollouts.end is not None:
        changes["end token ignored"] = Ignoring(PAPER, (rollouts.end,))
    found: dict[str, tuple[np.ndarray, Estimator]] = {"paper": (paper, PAPER)}
    for change, estimator in changes.items():
        found[change] = credit_of(rollouts, estimator, counted), estimator
    weights = counted.occurrences
    n = np.array(float(G))
    return [
        {
            "rollouts": name,
            "change": change,
            "groups": str(len(np.unique(counted.table.group))),
            "tokens": f"{weights.sum():.0f}",
            "mean_abs_credit": f"{np.average(abs(credit), weights=weights):.4f}",
            "saturated": share(abs(credit) > SATURATED * largest_credit(estimator, n), weights),
            "mean_abs_difference": f"{np.average(abs(credit - paper), weights=weights):.4f}",
            "moved": share(abs(credit - paper) > MOVED, weights),
            "other_sign": share(np.sign(credit) * np.sign(paper) < 0, weights),
            "note": "",
        }
        for change, (credit, estimator) in found.items()
    ]


def share(which: np.ndarray, weights: np.ndarray) -> str:
    return f"{np.average(which, weights=weights):.4f}"


def count(rollouts: Rollouts) -> Counted:
    """The table under `paper`, of the groups that have both classes."""
    ids, mask, correct, groups, _ = rollouts
    table = credit_table(ids, mask, correct, groups)
    mixed = (table.a + table.c > 0) & (table.b + table.d > 0)
    table = CreditTable(*(column[mixed] for column in table))
    labels, which = np.unique(groups, return_inverse=True)
    n_tokens = mask.sum(axis=1)
    totals = [np.bincount(which, n_tokens * (correct == x), len(labels)) for x in (1, 0)]
    length = np.stack(totals, axis=1)[np.searchsorted(labels, table.group)]
    occurrences = np.round(table.tf_true * length[:, 0] + table.tf_false * length[:, 1])
    assert occurrences.min() >= 1
    return Counted(table, occurrences)


def credit_of(rollouts: Rollouts, estimator: Estimator, counted: Counted) -> np.ndarray:
    """The credit of the table's rows under another estimator; 0 where it ignores the token."""
    table = credit_table(*rollouts[:4], estimator)
    mixed = (table.a + table.c > 0) & (table.b + table.d > 0)
    kept = ~np.isin(counted.table.token_id, ignored_by(estimator))
    credit = np.zeros(len(kept))
    assert np.array_equal(table.token_id[mixed], counted.table.token_id[kept])
    credit[kept] = table.credit[mixed]
    return credit


def single_precision_tables() -> dict[str, str]:
    wrong = no_association = off = 0
    worst = 0.0
    for n_true in range(1, 16):
        for a in range(n_true + 1):
            for b in range(16 - n_true + 1):
                exact = statistics.fisher_p_value(a, b, n_true, 16 - n_true, False)
                p = statistics.single_precision_p_value(a, b, n_true, 16 - n_true)
                no_association += exact == 1.0 and a + b > 0
                wrong += exact == 1.0 and a + b > 0 and p != 1.0
                off += abs(p - exact) > 1e-3
                worst = max(worst, abs(p - exact))
    note = f"{wrong} of {no_association} tables with p = 1 score e^-2; "
    note += f"{off} of 935 p-values are off by more than 1e-3, worst {worst:.3f}"
    return dict.fromkeys(COLUMNS, "") | {
        "rollouts": "tables of 16",
        "change": "float32 Fisher",
        "note": note,
    }


if __name__ == "__main__":
    main()
