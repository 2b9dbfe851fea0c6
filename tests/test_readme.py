"""The README says what the committed CSV files say. (`make readme-check` tries its code blocks.)

Each number is looked for in the README's text as it is rounded there.
"""

import csv
import json
import re
import statistics
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
AT_HALF = "at half the learning rate"
BETTER = "GRPO at the better of both rates"
OTHER_BASES = "at half the rate on three other base models"
BETTER_RATE = {"sums": "grpo-usual-rate", "lists": "grpo"}
ONE_LINE = " ".join(README.split())

DEMO_ROWS = {
    "GRPO": "demo-grpo",
    "GRPO+KTAE": "demo-grpo-ktae",
    "GRPO+calibrated": "demo-grpo-calibrated",
}
COLUMNS = ("greedy_accuracy", "sampled_accuracy", "sampled_length", "entropy")


def rows(name):
    with (ROOT / "benchmarks/results" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(first_cell):
    """The cells of the README's table row that begins so."""
    (line,) = re.findall(rf"^\| {re.escape(first_cell)} \|(.*)\|$", README, flags=re.MULTILINE)
    return [cell.strip().removesuffix(" tokens") for cell in line.split("|")]


def medians(found, when):
    """As the README rounds them; a run that was made again counts once, the last time."""
    latest = {(row["recipe"], row["seed"]): row for row in found}.values()
    values = {c: statistics.median(Decimal(row[f"{when}_{c}"]) for row in latest) for c in COLUMNS}
    return [
        f"{rounded(100 * values['greedy_accuracy'], '.1')} %",
        f"{rounded(100 * values['sampled_accuracy'], '.1')} %",
        rounded(values["sampled_length"], ".1"),
        rounded(values["entropy"], ".001"),
    ]


def rounded(value, to):
    """As by hand, a five upwards; the file has four decimals, so there are some."""
    return str(value.quantize(Decimal(to), ROUND_HALF_UP))


@pytest.mark.parametrize("label", DEMO_ROWS)
def test_the_demo_table(label):
    found = [row for row in rows("demo.csv") if row["recipe"] == DEMO_ROWS[label]]
    assert len({row["seed"] for row in found}) == 3, "the README says: median of three seeds"
    assert {row["steps"] for row in found} == {"100"}
    assert table(label) == medians(found, "after")


def test_the_base_model_of_the_demo_table():
    found = [row for row in rows("demo.csv") if row["recipe"] == "demo-grpo"]
    assert table("base model") == medians(found, "before")


def full_batches():
    """The rounds on the paper's training step, each with the median seconds by contender."""
    rounds = []
    for row in rows("estimator.csv"):
        if (row["rollouts"], row["vocabulary"], row["dtype"]) != ("16384", "151643", "int32"):
            continue
        if row["name"] == "cpu":
            rounds.append({})
        if rounds and row["name"] in ("cpu", "copy", "verl grpo", "verl grpo_vectorized"):
            rounds[-1][row["name"]] = float(row["median_s"])
    return rounds


def test_the_estimators_time():
    alone = [found for found in full_batches() if set(found) == {"cpu", "copy"}]
    said = re.search(
        r"\*\*(\d\.\d\d) s\*\* alone, (\d\.\d) times as long as copying its inputs and output "
        r"\((\S+) and (\S+) times in two other runs\)",
        ONE_LINE,
    )
    assert said is not None
    assert said.groups()[:2] in [
        (f"{found['cpu']:.2f}", f"{found['cpu'] / found['copy']:.1f}") for found in alone
    ]
    every = sorted(f"{found['cpu'] / found['copy']:.1f}" for found in full_batches())
    assert sorted(said.groups()[1:]) == every, "all runs on this batch are in the README"


def test_the_estimators_time_beside_verls():
    (found,) = (found for found in full_batches() if "verl grpo" in found)
    said = re.search(
        r"(\S+) s in turns with verl's plain GRPO advantages, which took (\S+) s, and its "
        r"vectorised ones, (\S+) s\.",
        ONE_LINE,
    )
    assert said is not None
    names = ("cpu", "verl grpo", "verl grpo_vectorized")
    assert list(said.groups()) == [f"{found[name]:.2f}" for name in names]


def test_what_the_papers_code_adds():
    with (ROOT / "study/paper/step_time.csv").open(newline="", encoding="utf-8") as file:
        found = {
            (row["model"], row["method"]): float(row["seconds"]) for row in csv.DictReader(file)
        }
    pairs = [(model, method) for model, method in found if not method.endswith("+KTAE")]
    added = [found[model, f"{method}+KTAE"] - found[model, method] for model, method in pairs]
    assert len(added) == 4
    assert f"The paper's code adds {min(added):.1f} to {max(added):.1f} s." in ONE_LINE


def test_how_often_the_grader_agrees_with_the_authors():
    (found,) = (
        row
        for row in rows("grading.csv")
        if (row["file"], row["grader"]) == ("ktae_eval_7B_k1", "ktae")
    )
    said = re.search(r"verdicts on (\S+) % of their 7B model's (\S+) outputs", ONE_LINE)
    assert said is not None
    assert said.groups() == (f"{100 * float(found['agree']):.1f}", f"{int(found['outputs']):,}")


def test_every_file_that_the_readme_links_is_there():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    ("row", "study", "treatment", "baseline"),
    [
        ("GRPO+KTAE - GRPO", "main", "grpo-ktae", "grpo"),
        ("GRPO+`calibrated` - GRPO", "main", "grpo-calibrated", "grpo"),
        ("the same on further seeds", "successor", "grpo-calibrated", "grpo"),
        ("the same, third study", "controls", "calibrated", "grpo"),
        ("DAPO+`calibrated` - DAPO", "main", "dapo-calibrated", "dapo"),
        ("GRPO+trigrams - GRPO", "successor", "grpo-trigrams", "grpo"),
        ("DAPO+trigrams - DAPO", "successor", "dapo-trigrams", "dapo"),
        (f"{AT_HALF}: GRPO+`calibrated` - GRPO", "rates", "calibrated", "grpo"),
        (f"{AT_HALF}: GRPO+trigrams - GRPO", "rates", "trigrams", "grpo"),
        ("the same trigrams in a second study", "goal", "grpo-trigrams", "grpo"),
        ("DAPO+trigrams - DAPO at half the rate", "goal", "dapo-trigrams", "dapo"),
        ("DAPO+trigrams - GRPO at half the rate", "goal", "dapo-trigrams", "grpo"),
        (f"{OTHER_BASES}: DAPO+trigrams - DAPO", "models-dapo", "dapo-trigrams", "dapo"),
        (f"{OTHER_BASES}: GRPO+trigrams - GRPO", "models", "trigrams", "grpo"),
        (f"`calibrated` {AT_HALF} - {BETTER}", "rates", "calibrated", BETTER_RATE),
        (f"trigrams {AT_HALF} (first study) - {BETTER}", "rates", "trigrams", BETTER_RATE),
    ],
)
def test_the_studies_differences(row, study, treatment, baseline):
    file = ROOT / "study" / "results" / study / "results.json"
    results = json.loads(file.read_text(encoding="utf-8"))
    cells = [row]
    for task in ("sums", "lists"):
        of_task = baseline if isinstance(baseline, str) else baseline[task]
        wanted = (treatment, of_task, task, "sampled_accuracy")
        (found,) = (
            one
            for one in results["comparisons"]
            if (one["treatment"], one["baseline"], one["task"], one["outcome"]) == wanted
        )
        mean, low, high = (
            f"{x:+.3f}".replace("0.", ".", 1) for x in (found["difference"], *found["interval"])
        )
        announced = found["kind"] == "confirmatory"
        bold = "**" if found["shown"] and announced else ""
        cells.append(f"{bold}{mean} ({low} to {high}){bold}")
    assert f"| {' | '.join(cells)} |" in README.splitlines()
