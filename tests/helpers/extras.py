"""Is a library of an extra installed?

Not asked by importing it, which takes seconds and may find a folder of that name.
"""

import importlib.metadata
import importlib.util

import pytest


def installed(name):
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def require(name):
    """Skip the test, or the whole module that calls this, without the library."""
    if not installed(name):
        pytest.skip(f"needs the extra '{name}'", allow_module_level=True)


def hide(monkeypatch, name):
    """Let the library look as if it were not installed, to whoever asks for its spec."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda asked: None if asked == name else find_spec(asked)
    )
