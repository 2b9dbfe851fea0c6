"""The README says what the committed CSV files say. (`make readme-check` tries its code blocks.)

Each number is looked for in the README's text as it is rounded there.
"""

import csv
import re
import statistics
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
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
