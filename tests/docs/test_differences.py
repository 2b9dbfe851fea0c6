"""The numbers of docs/differences.md are those of benchmarks/results/differences.csv, and its
switches are those of the presets."""

import csv
import dataclasses
import re
from typing import Any

import pages
import pytest

from ktae import KTAEConfig

TEXT = pages.page("differences")
CSV = pages.DOCS.parent / "benchmarks/results/differences.csv"
DUMPS = ("demo", "amc23_r1distill_qwen1p5b_runs", "mathl5_8models_k8")

CHANGES = {
    "paper": "paper",
    "released": "released",
    'fisher="point"': "fisher = point",
    "Fisher's test in single precision": "float32 Fisher",
    "h2=1": "h2 = 1",
    "normalize=True": "divided by h1 + h2",
    "term_scale=2": "doubled",
    "eps=1e-3": "eps = 1e-3",
    "mean lengths": "mean lengths",
    "`ignore_token_ids` with the end token": "end token ignored",
    "h3=0": "without frequencies",
}
"""The page's second table, and the CSV's names for its rows."""

MOVES = {
    "Fisher's p": "fisher = point",
    "its precision": "float32 Fisher",
    "h2, weight of information gain": "h2 = 1",
    "key-token value": "divided by h1 + h2",
    "all of `released`": "released",
    "frequency in one class only": "eps = 1e-3",
    "lengths in the term frequency": "mean lengths",
}
"""Those rows of its first table that quote how many tokens move."""


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, str], dict[str, str]]:
    with CSV.open(newline="") as file:
        return {(row["rollouts"], row["change"]): row for row in csv.DictReader(file)}


def shown(row: dict[str, str] | None, column: str) -> str:
    if row is None:
        return "–"
    value = float(row[column])
    return f"{value:.3f}" if column == "mean_abs_term" else f"{100 * value:.1f}"


def test_measured_table(measured: Any) -> None:
    (table,) = pages.tables(pages.section(TEXT, "## Measured"))
    assert [row[0] for row in table[1:]] == list(CHANGES)
    columns = ("mean_abs_term", "saturated", "moved", "other_sign")
    for row, change in zip(table[1:], CHANGES.values(), strict=True):
        for cell, column in zip(row[1:], columns, strict=True):
            expected = [shown(measured.get((dump, change)), column) for dump in DUMPS]
            assert cell.split(", ") == expected, (change, column)


def test_effects(measured: Any) -> None:
    table = pages.tables(pages.section(TEXT, "## In the estimator"))[0]
    quoted = {row[0]: found.groups() for row in table if (found := MOVED.search(row[-1]))}
    assert list(quoted) == list(MOVES)
    for label, change in MOVES.items():
        moved = [f"{100 * float(measured[dump, change]['moved']):.0f}" for dump in DUMPS]
        assert list(quoted[label]) == moved, label


MOVED = re.compile(r"moves (\d+), (\d+) and (\d+) %")


def test_sizes_and_single_precision(measured: Any) -> None:
    text = " ".join(TEXT.split())
    for dump in DUMPS:
        row = measured[dump, "paper"]
        assert re.search(rf"\({row['groups']} mixed[^)]* {int(row['tokens']):,} tokens\)", text)
    note = measured["tables of 16", "float32 Fisher"]["note"]
    wrong, tables, off, every, worst = re.fullmatch(
        r"(\d+) of (\d+) tables .*; (\d+) of (\d+) p-values are off .* worst ([\d.]+)", note
    ).groups()
    assert f"Of the {tables} tables of 16 rollouts whose exact p is 1 it gives {wrong}" in text
    assert f"{off} of all {every} p-values" in text and f"the worst by {worst}." in text


def test_released_is_what_the_page_says() -> None:
    (said,) = re.findall(r"^`released` is (.*), and nothing else", TEXT, re.MULTILINE)
    switches = eval(f"dict({said.replace('`', '')})")
    assert len(switches) == 4
    assert KTAEConfig(**switches) == KTAEConfig.released()
    for name, value in switches.items():
        assert KTAEConfig().__dict__[name] != value


def test_switches_are_settings() -> None:
    fields = {field.name for field in dataclasses.fields(KTAEConfig)}
    arguments = {"correct", "threshold", "base"}  # of token_advantages
    table = pages.tables(pages.section(TEXT, "## In the estimator"))[0]
    for row in table[1:]:
        for name in re.findall(r"`(\w+)=?", row[3].replace('"', "")):
            assert name in fields | arguments | {"released"}, row
