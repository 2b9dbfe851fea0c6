"""Small dumps for the tests of the report."""

import json

import numpy as np


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def token_totals(columns, token_ids):
    """Totals over groups of the columns of a credit table (`ktae.report.strongest.as_columns`)."""
    from ktae.report.totals import TokenSums

    sums = TokenSums(len(token_ids))
    sums.add(columns, np.searchsorted(token_ids, columns["token_id"]))
    return sums.totals()


# Two correct and two incorrect rollouts; the last states the right answer and goes on.
ROLLOUTS = [
    {"group": "sum", "prompt": "2 + 2?", "answer": "4", "response": text, "reward": reward}
    for text, reward in (
        ("two and two, so the answer is 4", 1),
        ("it is easy: the answer is 4", 1),
        ("maybe maybe the answer is 5", 0),
        ("the answer is 4 hmm wait maybe the answer is 5 maybe", 0),
    )
]

# Four rollouts with turns; the second comes back to the door, which is 8 9.
AGENTS = [
    {"group": 0, "token_ids": ids, "mask": [int(x < 8) for x in ids], "reward": reward}
    for ids, reward in (
        ([1, 2, 8, 9, 3], 1),
        ([1, 2, 8, 9, 4, 8, 9, 3], 1),
        ([1, 2, 8, 9, 4], 0),
        ([5, 8], 0),
    )
]
