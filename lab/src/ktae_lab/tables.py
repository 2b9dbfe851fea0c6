"""The tables and numbers of the pages, from the committed results.

A table stands between `<!-- table: NAME WORDS -->` and `<!-- end -->`, a number in a sentence
between `<!-- NAME: WORDS -->` and `<!-- end -->` on one line; the text around them is written by
hand. What a name stands for is a function of this module, in `MAKERS`.
"""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ktae.errors import InputError
from ktae.inference import Interval, holm
from ktae_lab.align import summary
from ktae_lab.csv_files import as_row, read_table
from ktae_lab.intervals import mean_interval
from ktae_lab.study import matrix as matrices
from ktae_lab.study.contrasts import Compared, compare, paired
from ktae_lab.study.folder import StudyFolder

LAB = Path(__file__).resolve().parents[2]
"""The laboratory's folder in a checkout; elsewhere there are no results."""
RESULTS = LAB / "results"
PAGES = LAB / "pages"
EVIDENCE = LAB.parent / "docs" / "evidence.md"
AGENTS = LAB.parent / "docs" / "agents.md"
README = LAB.parent / "README.md"
COMPARISONS = RESULTS / "comparisons.csv"
STUDIES = ("agents", "decisive", "real-model", "rivals")
"""Those with announced comparisons whose runs are here. Of all others `comparisons.csv` keeps the
announced tests and the commit that holds their data."""
TASKS = ("sums", "lists")
BASELINE, PRIMARY = "grpo", "accuracy"
"""The primary outcome is accuracy at each model's best temperature, `validated_accuracy`."""
COLUMNS = {PRIMARY: "best temperature", "accuracy_at_1": "temperature 1"}
OUTCOMES = {
    "validated_accuracy": "accuracy, best temperature",
    "accuracy_at_1": "accuracy, temperature 1",
    "end_entropy": "entropy at the end, nats a token",
    "mean_accuracy": "accuracy, mean over the run",
    "sampled_accuracy": "accuracy at the end, sampled",
    "greedy_accuracy": "accuracy at the end, greedy",
}
RATES = ("5e-5", "7.5e-5", "10.6e-5")
"""Of rivals-rates, in the order of which the first of equal ones is chosen."""
VALIDATION = [f"validation_{t}" for t in ("0", "0.25", "0.5", "0.75", "1")]
"""The columns of validated.csv of which a model's best temperature has the largest."""


# The results, each file read once.


@functools.cache
def runs_of(study: str) -> pd.DataFrame:
    """The study's `runs.csv`; what was measured of final models is an outcome like the others."""
    table = read_table(RESULTS / study / "runs.csv")
    measured = table.filter(like="validated.")
    return table.assign(**{f"outcome.{name}": measured[name] for name in measured})


def arms_of(study: str) -> dict[str, str]:
    """The study's arms in their order, as pages call them: `arms.csv`."""
    table = read_table(RESULTS / "arms.csv")
    return dict(table[table["study"] == study][["arm", "name"]].itertuples(index=False))


@functools.cache
def compared_of(study: str) -> dict[tuple[str, ...], Compared]:
    """All comparisons of a study, by treatment, baseline, outcome and task."""
    matrix = matrices.load(LAB / "matrices" / f"{study}.yaml")
    announced = StudyFolder(RESULTS / study).announcement()
    every = compare(matrix, runs_of(study), announced, recipes=None)
    return {compared.comparison: compared for compared in every}


def interval_of(study: str, treatment: str, baseline: str, column: str, task: str) -> Interval:
    """The difference of two arms in what was measured of their final models."""
    pairs = paired(runs_of(study), treatment, baseline, f"validated.{column}", task)
    return mean_interval(pairs.to_numpy())


def comparisons() -> pd.DataFrame:
    """`comparisons.csv` as it should be.

    Rows of studies whose runs are here are made anew; of the others they are kept. Holm's
    correction over all studies is over all announced tests, of either kind; what cannot be tested
    counts as if its p were 1.
    """
    kept = pd.read_csv(COMPARISONS, dtype=str, keep_default_na=False)
    rows = [as_row(name, compared) for name in STUDIES for compared in compared_of(name).values()]
    new = pd.DataFrame(rows).drop(columns="note").astype(str)
    table = pd.concat([kept[~kept["study"].isin(STUDIES)], new]).fillna("")
    table = table.sort_values("study", kind="stable", ignore_index=True)
    announced = table["announced"] == "yes"
    p_values = pd.to_numeric(table["p"][announced]).fillna(1.0)
    corrected = [f"{p:.3g}" for p in holm(p_values.tolist())]
    table.loc[announced, "holm_over_all_studies"] = corrected
    return table


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def signed(interval: Sequence[float], digits: int = 3) -> str:
    """`+.012 (-.003 to +.027)`, with zeros."""
    mean, low, high = (f"{x:+.{digits}f}" for x in interval)
    return f"{mean} ({low} to {high})"


def unsigned(interval: Sequence[float], digits: int = 2) -> str:
    """The same of what is no difference."""
    return "{:.{d}f} ({:.{d}f} to {:.{d}f})".format(*interval, d=digits)


def marked(study: str, text: str, *comparison: str) -> str:
    """In bold where the comparison was announced and is shown."""
    compared = compared_of(study)[comparison]
    return f"**{text}**" if compared.announced and compared.shown else text


# The two toy experiments: `decisive` and `rivals`.


def arms(study: str, *pairs: str) -> str:
    """Differences in accuracy of pairs TREATMENT/BASELINE; without any, of each arm and GRPO."""
    names, rows = arms_of(study), []
    others = [f"{name}/{BASELINE}" for name in names if name != BASELINE]
    for treatment, baseline in (pair.split("/") for pair in pairs or others):
        cells = []
        for task in TASKS:
            for column in COLUMNS:
                text = difference(study, treatment, baseline, column, task)
                if column == PRIMARY:
                    text = marked(study, text, treatment, baseline, "validated_accuracy", task)
                cells.append(text)
        rows.append([f"{names[treatment]} - {names[baseline]}", *cells])
    heads = [f"{task}, {name}" for task in TASKS for name in COLUMNS.values()]
    return markdown(["accuracy", *heads], rows)


def difference(study: str, treatment: str, baseline: str, column: str, task: str = "") -> str:
    """The difference of two arms with its interval."""
    return signed(interval_of(study, treatment, baseline, column, task))


def p_value(study: str, treatment: str, baseline: str, task: str, family: str = "study") -> str:
    """The p of an announced test of the primary outcome, after Holm's correction over its study or,
    with `over-all`, over the tests of all studies."""
    comparison = (treatment, baseline, "validated_accuracy", task)
    if family == "study":
        return f"{compared_of(study)[comparison].corrected:.2g}"
    table = comparisons().set_index(["study", "treatment", "baseline", "outcome", "task"])
    return f"{float(table.loc[(study, *comparison), 'holm_over_all_studies']):.2g}"


def mean(study: str, method: str, column: str, task: str = "") -> str:
    """An arm's mean of a column of runs.csv."""
    runs = runs_of(study)
    return f"{runs[(runs['task'] == task) & (runs['method'] == method)][column].mean():.3f}"


def cold(study: str) -> str:
    """How many models do best at temperature 0 or .25, of all."""
    temperatures = runs_of(study)["validated.temperature"].dropna()
    return f"{(temperatures <= 0.25).sum()} of {len(temperatures)}"


def rates() -> str:
    """Accuracy on validation problems at the best temperature, by learning rate; chosen in bold.

    Means over base models.
    """
    table = read_table(RESULTS / "rivals-rates" / "validated.csv")
    table["best"] = table[VALIDATION].max(axis=1)
    by_rate = table.pivot_table(index="method", columns="task", values="best")
    heads = [f"{task}, {rate}" for task in TASKS for rate in RATES]
    rows = []
    for arm, name in arms_of("rivals").items():
        if arm in by_rate.index:
            cells = []
            for task in TASKS:
                accuracies = [by_rate.loc[arm, f"{task}-{rate}"] for rate in RATES]
                best = int(np.argmax(accuracies))
                texts = [f"{accuracy:.3f}" for accuracy in accuracies]
                texts[best] = f"**{texts[best]}**"
                cells += texts
            rows.append([name, *cells])
    return markdown(["", *heads], rows)


def entropy_rank(column: str, task: str) -> str:
    """Rank correlation over all arms of the entropy at the end and the accuracy."""
    runs = runs_of("rivals")
    means = runs[runs["task"] == task].groupby("method")[["outcome.end_entropy", column]].mean()
    return f"{means.corr('spearman').iloc[0, 1]:.2f}"


# The real model, and agents.


def differences(study: str, *outcomes: str) -> str:
    """Pairs of a study's arms, with Holm's p of announced tests. Bold: shown."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (treatment, baseline, outcome, task), compared in compared_of(study).items():
        assert compared.interval is not None
        text = marked(study, signed(compared.interval), treatment, baseline, outcome, task)
        text += f", p {compared.corrected:.2g}" if compared.announced else ""
        rows.setdefault((treatment, baseline), {})[outcome] = text
    cells = [
        [f"`{treatment}` - `{baseline}`", *(texts.get(outcome, "") for outcome in outcomes)]
        for (treatment, baseline), texts in rows.items()
    ]
    return markdown(["", *(OUTCOMES[outcome] for outcome in outcomes)], cells)


def real_held_out(*estimators: str) -> str:
    """Held-out pairs of GRPO's own rollouts, a column for every ten steps."""
    table = read_table(RESULTS / "real-model" / "held_out.csv")
    by_key = table.set_index(["steps", "estimator"])
    steps = list(dict.fromkeys(table["steps"]))
    rows = [
        [f"`{name}`", *(unsigned(by_key.loc[(s, name), ["auc", "low", "high"]]) for s in steps)]
        for name in estimators
    ]
    groups = [by_key.loc[(s, estimators[0]), "groups"] for s in steps]
    heads = [f"steps {s}, {n} groups" for s, n in zip(steps, groups, strict=True)]
    return markdown(["", *heads], rows)


def real_alignment() -> str:
    """An arm's gain, and how much nearer it points to the true gradient than GRPO; below them what
    these differences are of: GRPO's own cosine, and that of the reference's halves."""
    rows = []
    for arm in ("offset", "conflict-tokens", "sharp-trigrams"):
        gain = difference("real-model", arm, BASELINE, PRIMARY)
        rows.append([f"`{arm}` - `{BASELINE}`", gain, *(signed(x) for x in alignment(arm))])
    level = mean("real-model", BASELINE, "validated.accuracy")
    table = aligned()
    cosines = table[table["estimator"] == summary.BASE]["cosine"]
    rows.append([f"`{BASELINE}` itself", level, *(unsigned(x, 3) for x in cosines)])
    about = summary.read(RESULTS / "real-alignment").about
    halves = about[about["metric"] == "adam"]["reliability"]
    rows.append(["the reference's halves", "", *(f"{half:.3f}" for half in halves)])
    steps = about["measurement"].str.removeprefix("smollm2-step").unique()
    heads = [f"alignment after {step} steps" for step in steps]
    return markdown(["", "accuracy, best temperature", *heads], rows)


def alignment(arm: str) -> list[Interval]:
    """How much nearer than GRPO an arm as trained points to the true gradient, by step."""
    table = aligned()
    chosen = (table["estimator"] == arm) & (table["mixture"] == "as trained")
    return list(table[chosen]["difference"])


@functools.cache
def aligned() -> pd.DataFrame:
    """The rows of `real-alignment` in Adam's metric, of all its measurements."""
    measured = summary.read(RESULTS / "real-alignment")
    names = measured.about["measurement"].unique()
    rows = [row for name in names for row in summary.rows(measured, name)]
    return pd.DataFrame([row for row in rows if row.metric == "adam"])


# The paper.


def paper_accuracy() -> str:
    """The paper's averages, with the error of so few problems that the paper leaves out."""
    table = read_table(RESULTS / "paper" / "accuracy.csv")
    rows = []
    for model in ("1.5B", "7B"):
        for method in ("GRPO", "DAPO"):
            each, interval = _of_paper(table, model, method)
            bounds = "{:+.1f} to {:+.1f}".format(*interval[1:])
            shown = " / ".join(f"{d:+.1f}" for d in each)
            rows.append([model, f"{method}+KTAE - {method}", shown, f"{interval[0]:+.1f}", bounds])
    benchmarks = table[["benchmark", "problems"]].drop_duplicates()
    heads = " / ".join(f"{name} ({n})" for name, n in benchmarks.itertuples(index=False))
    return markdown(["model", "difference", heads, "average", "95 % of the average"], rows)


def paper_beside_ours() -> str:
    """What KTAE changes there and in the study `main`: points of accuracy, and length in per cent
    of the baseline's. The paper's answers are greedy; its lengths, and ours, are means."""
    theirs = read_table(RESULTS / "paper" / "accuracy.csv")
    ours = read_table(RESULTS / "paper" / "ours.csv").set_index(["method", "outcome", "task"])
    rows = []
    for method in ("GRPO", "DAPO"):
        for says, outcome in (
            ("greedy accuracy, points", "greedy_accuracy"),
            ("sampled accuracy, points", "sampled_accuracy"),
            ("length, %", "length"),
        ):
            cells = []
            for model in ("1.5B", "7B"):
                if outcome == "greedy_accuracy":
                    cells.append(signed(_of_paper(theirs, model, method)[1], 1))
                elif outcome == "length":
                    lengths = theirs[theirs["model"] == model].groupby("method")["length"].mean()
                    share = lengths[f"{method}+KTAE"] / lengths[method] - 1
                    cells.append(f"{100 * share:+.1f}")
                else:
                    cells.append("")
            for task in TASKS:
                row = ours.loc[(method, outcome, task)]
                share = 100 / row["baseline_mean"] if outcome == "length" else 100
                cells.append(signed(row[["mean", "low", "high"]] * share, 1))
            rows.append([f"{method}+KTAE - {method}", says, *cells])
    return markdown(["", "", "paper, 1.5B", "paper, 7B", "ours, sums", "ours, lists"], rows)


def _of_paper(table: pd.DataFrame, model: str, method: str) -> tuple[pd.Series[float], Interval]:
    """The differences by benchmark, and their mean with its 95 % interval: binomial, the two models
    taken as independent."""
    of_model = table[table["model"] == model].set_index("benchmark")
    plain = of_model[of_model["method"] == method]
    ktae = of_model[of_model["method"] == f"{method}+KTAE"]
    each = ktae["accuracy"] - plain["accuracy"]
    shares = pd.concat([plain, ktae])
    variance = (shares["accuracy"] * (100 - shares["accuracy"]) / shares["problems"]).sum()
    half = 1.96 * float(variance) ** 0.5 / len(plain)
    return each, Interval(each.mean(), each.mean() - half, each.mean() + half)


def announced() -> str:
    """How many tests were announced, in all studies."""
    return str((comparisons()["announced"] == "yes").sum())


MAKERS: Mapping[str, Callable[..., str]] = {
    "announced": announced,
    "arms": arms,
    "cold": cold,
    "difference": difference,
    "differences": differences,
    "entropy-rank": entropy_rank,
    "mean": mean,
    "p-value": p_value,
    "paper-accuracy": paper_accuracy,
    "paper-beside-ours": paper_beside_ours,
    "rates": rates,
    "real-alignment": real_alignment,
    "real-held-out": real_held_out,
}
_MARKER = re.compile(
    r"<!-- (?P<kind>[a-z-]+):(?P<words>[^\n>]*?) -->(?:(?!<!-- [a-z-]+:).)*?<!-- end -->", re.DOTALL
)


def filled(text: str, where: str) -> str:
    """The text of a page with every table and every number made anew; `where` names it in errors.

    Raises:
        InputError: no `<!-- end -->` follows a marker, or it cannot be filled.
    """
    if len(_MARKER.findall(text)) != len(re.findall(r"<!-- [a-z-]+:", text)):
        raise InputError(f"{where}: no `<!-- end -->` follows one of the markers")

    def anew(marker: re.Match[str]) -> str:
        kind, words = marker["kind"], marker["words"].split()
        name, *arguments = words if kind == "table" else (kind, *words)
        try:
            made = MAKERS[name](*arguments)
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"{where}: cannot fill `{kind}:{words}`: {error!r}") from None
        opening = f"<!-- {kind}:{marker['words']} -->"
        if kind == "table":
            return f"{opening}\n\n{made}\n\n<!-- end -->"
        return f"{opening}{made}<!-- end -->"

    return _MARKER.sub(anew, text)


def made() -> Iterator[tuple[Path, str]]:
    """The README, each page and the CSV of comparisons, with what should be in it."""
    for path in (README, EVIDENCE, AGENTS, *sorted(PAGES.glob("*.md"))):
        yield path, filled(path.read_text(encoding="utf-8"), os.path.relpath(path, LAB.parent))
    text = io.StringIO()
    comparisons().to_csv(text, index=False, lineterminator="\n")
    yield COMPARISONS, text.getvalue()


def stale(write: bool = False) -> list[Path]:
    """The files that hold something else than what is made of the results; written on demand."""
    differ = [(path, text) for path, text in made() if path.read_text(encoding="utf-8") != text]
    for path, text in differ if write else ():
        path.write_text(text, encoding="utf-8")
    return [path for path, _ in differ]
