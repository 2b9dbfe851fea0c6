"""The table of support says what is there: adapters, extras, versions, pages, tests."""

import csv
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
TRAINERS = ROOT / "src" / "ktae" / "trainers"
SHARED = {"__init__", "curves", "doctor", "lists", "metrics", "models", "strongest", "traces"}
"""Modules of that folder that are no engine's adapter."""

with (TRAINERS / "support.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]

each_row = pytest.mark.parametrize("row", ROWS, ids=[row["engine"] for row in ROWS])


def test_every_adapter_is_in_the_table():
    adapters = {path.stem for path in TRAINERS.iterdir() if path.suffix in ("", ".py")}
    assert adapters - SHARED - {"__pycache__"} == {row["page"] for row in ROWS}


@each_row
def test_what_a_row_names_is_there(row):
    assert row["evidence"] in ("training step", "real objects", "source only")
    assert (ROOT / row["tests"]).is_file()
    assert (ROOT / "docs" / f"{row['page']}.md").is_file()
    assert not row["extra"] or row["extra"] in EXTRAS


@each_row
def test_the_versions_are_those_of_the_extra(row):
    required = {r.name: r.specifier for r in map(Requirement, EXTRAS.get(row["extra"], ()))}
    if row["package"] in required:  # prime-rl and slime are in no index
        assert required[row["package"]] == SpecifierSet(row["versions"])
