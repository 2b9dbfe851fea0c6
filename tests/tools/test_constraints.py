"""The environments for GPUs fit what the project asks for; nothing is downloaded."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LINUX = {"python_version": "3.12", "python_full_version": "3.12.0", "sys_platform": "linux"}


def pins(name):
    lines = (ROOT / f"constraints-gpu-{name}.txt").read_text("utf-8").splitlines()
    pinned = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(package): version for package, version in pinned}


def asked(requirements, extra=""):
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or marker.evaluate(LINUX | {"extra": extra}):
            yield requirement


@pytest.mark.parametrize("engine", ["trl", "verl"])
def test_pins_are_within_the_bounds_of_ktae_and_of_the_engine(engine):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = list(asked(project["dependencies"] + extras[engine] + extras["eval"]))
    pinned = pins(engine)
    try:
        installed = importlib.metadata.version(engine)
    except importlib.metadata.PackageNotFoundError:
        installed = None
    if installed == pinned[engine]:
        for extra in {"trl": ["vllm"], "verl": ["vllm", "fsdp"]}[engine]:
            requirements += asked(importlib.metadata.requires(engine), extra)
    assert len(requirements) > 10
    for requirement in requirements:
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} has no pin"
        assert requirement.specifier.contains(version, prereleases=True), (requirement, version)
