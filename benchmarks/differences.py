"""What each difference between the paper, its authors' code and ktae does to the credit.

    python benchmarks/differences.py                                   # the demo's base model
    python benchmarks/differences.py FILE --tokenizer FOLDER --append  # a rollout dump

Every row of results/differences.csv compares one change with the preset `paper`, over all tokens of
the mixed groups. `tables of 16` counts, over all 935 contingency tables of 16 rollouts with both
classes, what single precision makes of Fisher's test.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bias import G, sample
from estimator import append_rows, write_rows

from ktae import Estimator, preset, stats, token_credit
from ktae.estimators import KTAE, Ignoring, Scaled
from ktae.experiments.demo import SUMS
from ktae.experiments.demo.model import make_tokenizer
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
    """Arguments of `token_credit`, and the end-of-sequence token if there is one."""

    token_ids: np.ndarray
    mask: np.ndarray
    correct: np.ndarray
    groups: np.ndarray
    end: int | None


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
    write = append_rows if arguments.append else write_rows
    write(arguments.csv, rows)
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
    _, mask, correct, groups, end = rollouts
    labels, which = np.unique(groups, return_inverse=True)
    of_class = [np.bincount(which, correct == verdict, len(labels)) > 0 for verdict in (1, 0)]
    mixed = of_class[0] & of_class[1]
    tokens = (mask != 0) & (mixed[which] & ~np.isnan(correct))[:, None]
    changes = {"paper": PAPER, **CHANGES}
    if end is not None:
        changes["end token ignored"] = Ignoring(PAPER, (end,))
    credits = {
        change: token_credit(*rollouts[:4], estimator)[tokens].astype(float)
        for change, estimator in changes.items()
    }
    paper, n = credits["paper"], np.array(float(G))
    return [
        {
            "rollouts": name,
            "change": change,
            "groups": str(mixed.sum()),
            "tokens": str(tokens.sum()),
            "mean_abs_credit": f"{abs(credit).mean():.4f}",
            "saturated": share(abs(credit) > SATURATED * largest_credit(changes[change], n)),
            "mean_abs_difference": f"{abs(credit - paper).mean():.4f}",
            "moved": share(abs(credit - paper) > MOVED),
            "other_sign": share(np.sign(credit) * np.sign(paper) < 0),
            "note": "",
        }
        for change, credit in credits.items()
    ]


def share(which: np.ndarray) -> str:
    return f"{which.mean():.4f}"


def single_precision_tables() -> dict[str, str]:
    wrong = no_association = off = 0
    worst = 0.0
    for n_true in range(1, 16):
        for a in range(n_true + 1):
            for b in range(16 - n_true + 1):
                exact = stats.fisher_p_value(a, b, n_true, 16 - n_true, False)
                p = stats.single_precision_p_value(a, b, n_true, 16 - n_true)
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
