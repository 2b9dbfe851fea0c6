"""Works one group out from the paper's formulas and freezes the numbers in worked_example.json.

Independent of ktae: it imports nothing from it, counts with plain lists, takes p-values as exact
fractions and everything else with 40 digits of mpmath. Run it to rewrite the JSON file:

    python tests/expected/worked_example.py

The group, with `.` for padding (4 correct and 2 incorrect rollouts; E is Qwen's <|endoftext|>):

    row  reward  tokens            token  a  b  occurrences in 14 correct, 9 incorrect tokens
    0    1.0     5 6 6 8 E         5      4  2  5  2
    1    0.8     5 8 7 E .         6      2  0  3  0
    2    1.0     5 6 8 . .         7      1  2  1  2
    3    0.9     5 5 . . .         8      3  0  3  0
    4    0.0     5 7 9 9 E         9      0  2  0  3
    5    -0.5    9 7 5 E .         E      2  2  2  2

Two-sided p by hand: tables with k rollouts that contain the token have the counts
k = 2: 1, 8, 6 of 15 for a = 0, 1, 2 (6: 7/15; 9: 1/15); k = 3: 4, 12, 4 of 20 for a = 1, 2, 3,
an exact tie (7 and 8: 8/20); k = 4: 6, 8, 1 of 15 for a = 2, 3, 4 (E: 7/15); k = 6: 1 of 1 (5: 1).
"""

import json
import re
from fractions import Fraction
from itertools import chain
from math import comb
from pathlib import Path

import mpmath
import numpy as np

E = 151643
ROLLOUTS = [[5, 6, 6, 8, E], [5, 8, 7, E], [5, 6, 8], [5, 5], [5, 7, 9, 9, E], [9, 7, 5, E]]
CORRECT = [True, True, True, True, False, False]
REWARDS = ["1.0", "0.8", "1.0", "0.9", "0.0", "-0.5"]

PAPER = {"h1": 1, "h2": 2, "h3": 1, "p": "exact", "divide": False, "scale": 1, "silent": []}
VARIANTS = {
    "paper": PAPER,
    "released": PAPER | {"h2": 1, "p": "float32", "divide": True, "scale": 2, "silent": [E]},
    "point": PAPER | {"p": "point"},
    "no_fisher": PAPER | {"h1": 0},
    "no_information_gain": PAPER | {"h2": 0},
    "no_term_frequency": PAPER | {"h3": 0},
}
COLUMNS = "token_id a b c d tf_correct tf_incorrect p_value fisher_score "
COLUMNS += "information_gain direction value credit"
K1, B_LEN, EPS = mpmath.mpf(2), mpmath.mpf("0.5"), mpmath.mpf("0.00001")


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def entropy(*counts: int) -> mpmath.mpf:
    shares = [Fraction(count, sum(counts)) for count in counts if count]
    return -sum((real(share) * mpmath.log(real(share), 2) for share in shares), mpmath.mpf(0))


def p_value(a: int, b: int, n_correct: int, n_incorrect: int, kind: str) -> Fraction:
    if kind == "float32":
        return Fraction(float32_p_value(a, b, n_correct, n_incorrect))
    ways = [comb(n_correct, x) * comb(n_incorrect, a + b - x) for x in range(a + b + 1)]
    chosen = [ways[a]] if kind == "point" else [way for way in ways if way <= ways[a]]
    return Fraction(sum(chosen), comb(n_correct + n_incorrect, a + b))


def float32_p_value(a: int, b: int, n_correct: int, n_incorrect: int) -> float:
    """As the authors' code has it: logarithms of factorials in float32, tables compared by <=."""
    log = [np.float32(mpmath.log(mpmath.factorial(i))) for i in range(n_correct + n_incorrect + 1)]

    def log_comb(n: int, k: int) -> np.float32:
        return log[n] - log[k] - log[n - k]

    k = a + b
    at = range(max(0, k - n_incorrect), min(k, n_correct) + 1)
    logs = {x: log_comb(n_correct, x) + log_comb(n_incorrect, k - x) for x in at}
    total = log_comb(n_correct + n_incorrect, k)
    p = {x: np.float32(mpmath.exp(float(logs[x] - total))) for x in at}
    return float(np.float32(sum(float(p[x]) for x in at if p[x] <= p[a])))


def asin_sqrt(part: int, whole: int) -> mpmath.mpf:
    return mpmath.asin(mpmath.sqrt(real(Fraction(part, whole))))


def credit_of(token: int, true: list[list[int]], false: list[list[int]], how: dict) -> list:
    """One row of the credit table, in the order of COLUMNS."""
    n_correct, n_incorrect = len(true), len(false)
    a, b = sum(token in rollout for rollout in true), sum(token in rollout for rollout in false)
    long_true, long_false = list(chain(*true)), list(chain(*false))  # the paper concatenates
    tf_correct = Fraction(long_true.count(token), len(long_true))
    tf_incorrect = Fraction(long_false.count(token), len(long_false))
    p = p_value(a, b, n_correct, n_incorrect, how["p"])
    fisher = mpmath.mpf(0) if p == 1 else mpmath.exp(-2 * real(p))
    n = n_correct + n_incorrect
    conditional = real(Fraction(a + b, n)) * entropy(a, b)
    if a + b < n:
        conditional += real(Fraction(n - a - b, n)) * entropy(n_correct - a, n_incorrect - b)
    gain = entropy(n_correct, n_incorrect) - conditional
    average = Fraction(len(long_true) + len(long_false), 2)

    def saturated(tf: Fraction, length: int) -> mpmath.mpf:
        norm = 1 - B_LEN + B_LEN * real(length / average)
        return (K1 + 1) * real(tf) / (K1 * norm + real(tf))

    big_true = saturated(tf_correct, len(long_true))
    big_false = saturated(tf_incorrect, len(long_false))
    direction = asin_sqrt(a, n_correct) - asin_sqrt(b, n_incorrect)
    direction += how["h3"] * (big_true / (big_false + EPS) - big_false / (big_true + EPS))
    value = (how["h1"] * fisher + how["h2"] * gain) * direction
    if how["divide"]:
        value /= how["h1"] + how["h2"]
    scale = 0 if token in how["silent"] else how["scale"]
    credit = scale * (1 / (1 + mpmath.exp(-value)) - mpmath.mpf("0.5"))
    judged = (real(tf_correct), real(tf_incorrect), real(p), fisher, gain, direction, value, credit)
    return [token, a, b, n_correct - a, n_incorrect - b, *map(float, judged)]


def work_out(how: dict) -> dict:
    true = [rollout for rollout, ok in zip(ROLLOUTS, CORRECT, strict=True) if ok]
    false = [rollout for rollout, ok in zip(ROLLOUTS, CORRECT, strict=True) if not ok]
    table = [credit_of(token, true, false, how) for token in sorted(set(chain(*ROLLOUTS)))]
    by_token = {row[0]: row[-1] for row in table}
    rewards = [mpmath.mpf(reward) for reward in REWARDS]
    mean = sum(rewards) / len(rewards)
    std = mpmath.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    base = [float((r - mean) / (std + mpmath.mpf("1e-6"))) for r in rewards]
    credit = [[by_token.get(token, 0.0) for token in rollout] for rollout in ROLLOUTS]
    advantages = [[grpo + credit for credit in row] for grpo, row in zip(base, credit, strict=True)]
    return {"table": table, "credit": credit, "advantages": advantages}


def work_out_all() -> dict:
    with mpmath.workdps(40):
        return {"columns": COLUMNS.split()} | {n: work_out(how) for n, how in VARIANTS.items()}


if __name__ == "__main__":
    text = json.dumps(work_out_all(), indent=1)
    one_line_a_row = re.sub(r"\[[^\[\]]*\]", lambda row: " ".join(row[0].split()), text)
    Path(__file__).with_suffix(".json").write_text(one_line_a_row + "\n", encoding="utf-8")
