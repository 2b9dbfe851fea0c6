"""What each difference between the paper, its authors' code and ktae does to the credit.

    python benchmarks/differences.py NAME=FILE... [--tokenizer FOLDER]

Every row of results/differences.csv compares one change with the preset `paper`, over all tokens of
the mixed groups.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from estimator import write_rows

from ktae import Estimator, preset, token_credit
from ktae.estimators import KTAE, Scaled
from ktae.padding import pad
from ktae.rollouts.groups import arrays_of, group_codes, tokenized
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.readers import read
from ktae.rollouts.tokens import load_tokenizer
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dumps", metavar="NAME=FILE", nargs="+")
    parser.add_argument("--tokenizer")
    path = Path(__file__).parent / "results/differences.csv"
    parser.add_argument("--csv", type=Path, default=path)
    arguments = parser.parse_args()
    tokenizer = load_tokenizer(arguments.tokenizer) if arguments.tokenizer else None
    rows = []
    for name, _, file in (dump.partition("=") for dump in arguments.dumps):
        rollouts = read([Path(file)], ReadOptions(pool_models=True))
        rows += compare(name, tokenized(rollouts, tokenizer))
    write_rows(arguments.csv, rows)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


def compare(name: str, rollouts: Any) -> list[dict[str, str]]:
    """A row for each change, over the tokens of mixed groups of a record."""
    ids, mask = pad(arrays_of(rollouts["token_ids"]), arrays_of(rollouts["mask"]))
    correct, groups = rollouts["correct"].to_numpy(), group_codes(rollouts)[0]
    of_class = [np.bincount(groups, correct == x, groups.max() + 1) > 0 for x in (1, 0)]
    mixed = of_class[0] & of_class[1]
    tokens = mask & (mixed[groups] & ~np.isnan(correct))[:, None]
    changes = {"paper": PAPER, **CHANGES}
    credits = {
        change: token_credit(ids, mask, correct, groups, estimator)[tokens].astype(float)
        for change, estimator in changes.items()
    }
    paper, n = credits["paper"], np.array(16.0)
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
        }
        for change, credit in credits.items()
    ]


def share(which: np.ndarray) -> str:
    return f"{which.mean():.4f}"


if __name__ == "__main__":
    main()
