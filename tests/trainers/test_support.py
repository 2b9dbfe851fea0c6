"""The table of trainers in docs/other-trainers.md says what the extras say."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(
    r"^\| \[([\w-]+)\]\(.*?\) \| (\S[^|]*) \| (?:training step|real objects|source only) \|"
    r".*\| `pip install '?\.(?:\[(\w+)\])?'?` \|$",
    re.MULTILINE,
)
ROWS = ROW.findall((ROOT / "docs/other-trainers.md").read_text(encoding="utf-8"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def test_every_adapter_is_in_the_table():
    assert {trainer.lower().partition("-")[0] for trainer, *_ in ROWS} == {
        *("trl", "verl", "tinker", "verifiers", "prime", "trinity", "slime")
    }


@pytest.mark.parametrize(("trainer", "versions", "extra"), ROWS)
def test_the_versions_are_those_of_the_extra(trainer, versions, extra):
    required = {r.name: r.specifier for r in map(Requirement, EXTRAS[extra])} if extra else {}
    if trainer.lower() in required:  # prime-rl and slime are in no index
        assert required[trainer.lower()] == SpecifierSet(versions)
