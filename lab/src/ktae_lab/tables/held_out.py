"""Held-out pairs on real rollouts: the table and numbers of docs/validate.md."""

from ktae_lab.tables.page import Number, Table, markdown, newest, with_bounds

FILES = {
    "mathl5_8models_k8": "MATH level 5, eight small models",
    "amc23_r1distill_qwen1p5b_runs": "AMC23, R1-distilled Qwen 1.5B",
    "game24_gpt4_cot_k100": "game of 24, GPT-4",
    "gsm8k_openai_example_solutions_k4": "GSM8K, OpenAI's examples",
    "qwen25math_math_cot_100_k8": "MATH, Qwen2.5-Math",
}
PARTS = ("whole", "first half", "before the answer")
SHOWN = ("paper", "calibrated", "trigrams", "sharp-trigrams", "shorter", "majority")
BASELINES = ("shorter", "majority")


def held_out(half: str, part: str) -> str:
    """A row for each dump: mean and interval of the estimators that matter, on that part."""
    rows = []
    for file, label in FILES.items():
        own = [_row(file, half, part, name) for name in SHOWN]
        cells = [
            f"{_mean(row):.2f} ({float(row['auc_low']):.2f} to {float(row['auc_high']):.2f})"
            for row in own
        ]
        rows.append([label, own[0]["groups"], *cells])
    heads = [f"`{name}`" if name not in BASELINES else name for name in SHOWN]
    return markdown(["rollouts", "groups", *heads], rows)


def gains(estimator: str) -> str:
    """How much an estimator's mean over dumps is above others', part by part."""
    others = [name for name in SHOWN if name not in (estimator, *BASELINES)]
    rows = [[part, *(_gain(f"{estimator} - {other}", part) for other in others)] for part in PARTS]
    return markdown(["part", *(f"`{estimator}` - `{other}`" for other in others)], rows)


def _gain(difference: str, part: str) -> str:
    """Mean over dumps; the dumps' own intervals are of independent groups, so squares add up."""
    rows = [_row(file, "confirmation", part, difference) for file in FILES]
    mean = sum(map(_mean, rows)) / len(rows)
    halves = [(float(row["auc_high"]) - float(row["auc_low"])) / 2 for row in rows]
    half = sum(x**2 for x in halves) ** 0.5 / len(rows)
    return with_bounds(mean, mean - half, mean + half)


def _mean(row: dict[str, str]) -> float:
    return float(row["auc"])


def _row(*key: str) -> dict[str, str]:
    return newest("held_out", "file", "half", "part", "estimator")[key]


TABLES: dict[str, Table] = {"held-out": held_out, "held-out-gains": gains}
NUMBERS: dict[str, Number] = {}
