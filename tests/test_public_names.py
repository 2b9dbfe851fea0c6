"""What is public is what the reference documents, and the other way round (docs/reference.md)."""

import importlib
import re
from pathlib import Path

import pytest

import ktae

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^::: (ktae[\w.]*)$", REFERENCE, flags=re.MULTILINE)


def test_every_name_of_the_package_is_in_the_reference():
    names = {f"ktae.{name}" for name in ktae.__all__ if name != "__version__"}
    assert names <= set(ENTRIES)


def test_names_right_under_the_package_are_exported():
    modules = {path.stem for path in (ROOT / "src/ktae").iterdir()}
    direct = {e.split(".")[1] for e in ENTRIES if e.count(".") == 1}
    assert direct - modules <= set(ktae.__all__)


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_the_reference_names_is_there(entry):
    """And is documented; a module's names are those of its `__all__`, if it has one."""
    parts = entry.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("ktae"):
                continue
            pytest.skip(f"needs {error.name}")
        for name in parts[length:]:
            found = getattr(found, name)
        assert found.__doc__
        return
    pytest.fail(f"no module of {entry}")
