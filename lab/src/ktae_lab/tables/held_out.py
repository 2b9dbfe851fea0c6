"""Held-out pairs on real rollouts: the table and numbers of docs/validate.md."""

from collections.abc import Iterator

from ktae_lab.tables.page import Number, Table, markdown, newest

FILES = {
    "mathl5_8models_k8": "MATH level 5, eight small models",
    "amc23_r1distill_qwen1p5b_runs": "AMC23, R1-distilled Qwen 1.5B",
    "game24_gpt4_cot_k100": "game of 24, GPT-4",
    "gsm8k_openai_example_solutions_k4": "GSM8K, OpenAI's examples",
    "qwen25math_math_cot_100_k8": "MATH, Qwen2.5-Math",
}
PARTS = ("whole", "before the answer")
SHOWN = ("paper", "calibrated", "trigrams", "sharp-trigrams", "shorter")


def held_out(half: str) -> str:
    """A row for each dump and part: mean and interval of the estimators that matter."""
    rows = []
    for file, label in FILES.items():
        for part in PARTS:
            own = [_row(file, half, part, name) for name in SHOWN]
            cells = [
                f"{_mean(row):.2f} ({float(row['auc_low']):.2f} to {float(row['auc_high']):.2f})"
                for row in own
            ]
            rows.append([label, part, own[0]["groups"], *cells])
    heads = [f"`{name}`" if name != "shorter" else name for name in SHOWN]
    return markdown(["rollouts", "part", "groups", *heads], rows)


def gain(estimator: str, other: str, *part: str) -> str:
    """How much an estimator's mean over dumps and parts is above another's: `+0.06`."""
    parts = (" ".join(part),) if part else PARTS
    means = [list(_means(name, parts)) for name in (estimator, other)]
    difference = sum(means[0]) / len(means[0]) - sum(means[1]) / len(means[1])
    return f"{difference:+.3f}"


def _means(estimator: str, parts: tuple[str, ...]) -> Iterator[float]:
    for file in FILES:
        for part in parts:
            yield _mean(_row(file, "confirmation", part, estimator))


def _mean(row: dict[str, str]) -> float:
    return float(row["auc"])


def _row(*key: str) -> dict[str, str]:
    return newest("held_out", "file", "half", "part", "estimator")[key]


TABLES: dict[str, Table] = {"held-out": held_out}
NUMBERS: dict[str, Number] = {"held-out-gain": gain}
