"""Is a library of an extra installed?

Not asked by importing it, which takes seconds and may find a folder of that name.
"""

import importlib.metadata

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
