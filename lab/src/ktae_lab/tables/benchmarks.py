"""What the library's estimators, grader, demo and trainer do: the tables and numbers of
docs/measures.md, differences.md and grading.md, made of the benchmarks' CSV."""

from ktae_lab.csv_files import read_csv
from ktae_lab.tables import page
from ktae_lab.tables.page import Number, Table, markdown, newest, percent

CHANGES = {
    "paper": "`paper`",
    "released": "`released`",
    "fisher = point": '`fisher="point"`',
    "float32 Fisher": "Fisher's test in single precision",
    "h2 = 1": "`h2=1`",
    "divided by h1 + h2": "`normalize=True`",
    "doubled": "doubled",
    "eps = 1e-3": "`eps=1e-3`",
    "mean lengths": "mean lengths",
    "end token ignored": "the end token ignored",
    "without frequencies": "`h3=0`",
}
"""As the CSV and as the page call them, in the page's order."""
DUMPS = ("demo", "amc23_r1distill_qwen1p5b_runs", "mathl5_8models_k8")
"""Rollouts of differences.csv, in the order of a cell's three numbers."""
FILES = {
    "ktae_eval_7B_k1": "the paper's GRPO+KTAE 7B model, five benchmarks",
    "qwen25math_math_cot_100_k8": "Qwen2.5-Math on MATH, 8 samples",
    "amc23_r1distill_qwen1p5b_runs": "DeepSeek-R1-Distill-Qwen-1.5B on AMC23",
    "mathl5_8models_k8": "eight small models on MATH level 5, JSON",
}
"""Graded outputs."""
GRADERS = {"ktae": "`ktae` agrees", "ktae-last": "`ktae-last`", "math-verify": "math-verify alone"}
AIM = 0.985
"""Of the agreement of `ktae`; what meets it is bold."""
MISSING = "–"


def credit_bias(*estimator: str) -> str:
    """Mean credit under permuted labels, by the correct rollouts and by those with the token."""
    rows = _bias(" ".join(estimator))
    shares = list(dict.fromkeys(share for _, share in rows))
    labels = [_span(share) for share in shares]
    table = []
    for correct in dict.fromkeys(correct for correct, _ in rows):
        of = [rows[correct, share] for share in shares]
        error = max(float(row["standard_error"]) for row in of)
        table.append([correct, *map(_mean_credit, of), f"{error:.3f}"])
    return markdown([f"correct of {labels[-1]}", *labels, "standard errors up to"], table)


def largest_bias(*estimator: str) -> str:
    """The mean credit that is farthest from 0, on whichever side."""
    means = (float(row["mean_credit"]) for row in _bias(" ".join(estimator)).values())
    return f"{max(map(abs, means)):.3f}"


def moved(*change: str) -> str:
    """How many tokens a change moves, on the three sets of rollouts: `38, 10 and 20 %`."""
    measured = newest("differences", "rollouts", "change")
    *first, last = (
        f"{100 * float(measured[dump, ' '.join(change)]['moved']):.0f}" for dump in DUMPS
    )
    return f"{', '.join(first)} and {last} %"


def mixed_groups(dump: str) -> str:
    """The mixed groups of a set of rollouts, with their tokens."""
    row = newest("differences", "rollouts", "change")[dump, "paper"]
    return f"{row['groups']} mixed groups, {int(row['tokens']):,} tokens"


def single_precision() -> str:
    """What it makes of Fisher's test, as the benchmark puts it."""
    return newest("differences", "rollouts", "change")["tables of 16", "float32 Fisher"]["note"]


def agreement() -> str:
    """Of each grader with the verdicts in each file."""
    measured = newest("grading", "file", "grader")
    rows = []
    for file, label in FILES.items():
        of = [measured[file, grader] for grader in GRADERS]
        cells = [percent(row["agree"]) for row in of]
        if float(of[0]["agree"]) >= AIM:
            cells[0] = f"**{cells[0]}**"
        rows.append([label, f"{int(of[0]['outputs']):,}", *cells])
    return markdown(["file", "outputs", *GRADERS.values()], rows)


def agrees(file: str) -> str:
    """In how many of a file's outputs `ktae` agrees with it."""
    return percent(newest("grading", "file", "grader")[file, "ktae"]["agree"])


def clipped(study: str, task: str, method: str) -> str:
    """The share of clipped tokens, over all steps of a study's runs."""
    return f"{100 * float(_dropped_curves(study, task, method)['clipped']):.2g} %"


def equal_groups(study: str, task: str, method: str) -> str:
    """In how many of all steps a group had equal rewards."""
    row = _dropped_curves(study, task, method)
    return f"{percent(row['steps_with_equal_groups'], digits=0)} of {int(row['steps']):,}"


def _bias(estimator: str) -> dict[tuple[str, ...], dict[str, str]]:
    """By the number of correct rollouts, and of those that contain the token."""
    rows = newest("bias", "estimator", "correct", "held_by")
    found = {key[1:]: row for key, row in rows.items() if key[0] == estimator}
    if not found:
        raise KeyError(estimator)
    return found


def _span(share: str) -> str:
    """`1` for `1-1`, `2-4` as it is."""
    low, _, high = share.partition("-")
    return low if low == high else share


def _mean_credit(row: dict[str, str]) -> str:
    """A plain 0 is exact: no token had any credit. A rounded one has no sign."""
    if float(row["mean_abs_credit"]) == 0:
        return "0"
    shown = f"{float(row['mean_credit']):+.3f}"
    return shown[1:] if float(shown) == 0 else shown


def _dropped_curves(study: str, task: str, method: str) -> dict[str, str]:
    """The means of the curves that the laboratory's results leave out."""
    for row in read_csv(page.RESULTS / "dropped_curves.csv"):
        if (row["study"], row["task"], row["method"]) == (study, task, method):
            return row
    raise KeyError((study, task, method))


TABLES: dict[str, Table] = {
    "credit-bias": credit_bias,
    "grading-agreement": agreement,
}
NUMBERS: dict[str, Number] = {
    "largest-bias": largest_bias,
    "moved": moved,
    "mixed-groups": mixed_groups,
    "single-precision": single_precision,
    "agrees": agrees,
    "clipped": clipped,
    "equal-groups": equal_groups,
}
