"""Backends by name: what there is, what is missing, and no silent second choice."""

import dataclasses
import importlib.machinery
import sys
import types

import numpy as np
import pytest

import ktae
from ktae import InputError
from ktae.backends import BACKENDS, resolve


def test_backends_by_name() -> None:
    assert list(BACKENDS)[:2] == ["naive", "numpy"]
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert backend.description
        assert resolve(name, np.zeros((1, 1), dtype=int)) is backend
    assert resolve("auto", np.zeros((1, 1), dtype=int)).name == "cpu"
    for name in ("Naive", "", "gpu!", None):
        with pytest.raises(InputError, match=r"no backend .*; expected auto, naive, numpy, cpu"):
            resolve(name, None)  # type: ignore[arg-type]


def test_backends_say_what_is_available() -> None:
    assert list(ktae.backends()) == list(BACKENDS)
    assert ktae.backends()["naive"] == ktae.backends()["cpu"] == "available"


def test_a_backend_asked_for_by_name_never_falls_back() -> None:
    """One that cannot run here says why, and nothing else computes instead."""
    absent = dataclasses.replace(BACKENDS["cpu"], requires=("numpy", "no_such_package"))
    assert absent.missing() == "no_such_package is not installed"
    with pytest.raises(InputError, match="backend 'cpu' cannot be used: no_such_package is not"):
        absent.load()
    for name, state in ktae.backends().items():
        if state != "available":
            with pytest.raises(InputError, match=f"backend '{name}' cannot be used: "):
                ktae.token_credit([[1]], [[1]], [1], [0], backend=name)


def test_versions_of_packages_from_distributions_of_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As triton from pytorch-triton: then the package tells its version, if it can."""
    module = types.ModuleType("some_triton")
    module.__spec__ = importlib.machinery.ModuleSpec("some_triton", None)
    monkeypatch.setitem(sys.modules, "some_triton", module)
    backend = dataclasses.replace(BACKENDS["cpu"], requires=("some_triton 3.4",))
    assert "some_triton of unknown version is installed; 3.4 or newer" in backend.missing()
    for version, missing in (("3.4.0a0+git1", False), ("3.10", False), ("3.3.9", True)):
        module.__version__ = version
        assert bool(backend.missing()) == missing
    module.__version__ = "main"
    assert backend.missing()


@pytest.mark.parametrize("name", ["torch", "triton", "gpu"])
def test_tables_are_made_on_the_host(name: str) -> None:
    with pytest.raises(
        InputError, match=f"backend is '{name}'; .*'auto', 'cpu', 'numpy' or 'naive'"
    ):
        ktae.credit_table([[1]], [[1]], [1], [0], backend=name)
