"""What importing and running the core costs: NumPy, and numba once it computes. Nothing else."""

import subprocess
import sys

import pytest

HEAVY = ["torch", "trl", "verl", "numba", "pandas", "transformers", "scipy", "pyarrow", "pydantic"]


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "ktae",
        "ktae.backends",
        "ktae.backends.naive",
        "ktae.batch",
        "ktae.estimators.units",
        "ktae.estimators.controls",
        "ktae.estimators",
        "ktae.estimators.function",
        "ktae.credit",
    ],
)
def test_import_loads_nothing_heavy(module: str) -> None:
    loaded = run(f"import {module}, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_grading_leaves_its_libraries_to_the_workers() -> None:
    heavy = [*HEAVY, "math_verify", "sympy"]
    loaded = run(f"import ktae.grading, sys; print([m for m in {heavy} if m in sys.modules])")
    assert loaded == "[]"


def test_public_names() -> None:
    import ktae

    assert sorted(ktae.__all__) == [
        "CreditTable",
        "Estimator",
        "InputError",
        "__version__",
        "backends",
        "class_credit",
        "credit_table",
        "preset",
        "token_advantages",
        "token_credit",
    ]
    assert all(hasattr(ktae, name) for name in ktae.__all__)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "import ktae.backends.cpu", "import ktae.backends.tensors"])
def test_backends_is_a_function_whatever_is_imported_first(first: str) -> None:
    """A function to type checkers too, although the package that it comes from has that name."""
    if "tensors" in first:
        pytest.importorskip("torch")
    code = f"{first}\nimport ktae, types; ktae.token_credit([[1]], [[1]], [1], [0]); " + (
        "assert isinstance(ktae.backends, types.FunctionType); print(ktae.backends()['cpu'])"
    )
    assert run(code) == "available"


COMPUTE = """
import importlib.abc
import sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
for name in {absent}:
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{{name}} can still be imported")

import ktae
ids, mask, correct, groups = [[1, 2], [1, 3]], [[1, 1], [1, 1]], [1, 0], [0, 0]
print(ktae.token_credit(ids, mask, correct, groups, backend={backend!r}).tolist())
print(ktae.token_advantages(correct, ids, mask, groups, base=[0, 0], backend={backend!r}).tolist())
print(len(ktae.credit_table(ids, mask, correct, groups, backend={backend!r}).credit))
"""

WITHOUT_TORCH = ["torch", "trl", "verl", "transformers", "pandas", "scipy", "pyarrow"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "absent"),
    [
        ("naive", [*WITHOUT_TORCH, "numba"]),
        ("cpu", WITHOUT_TORCH),
        ("auto", WITHOUT_TORCH),
    ],
)
def test_core_computes_without_torch(backend: str, absent: list[str]) -> None:
    """A token of the one correct rollout gets 0.5, one of the one incorrect rollout -0.5."""
    expected = "[[0.0, 0.5], [0.0, -0.5]]"
    assert run(COMPUTE.format(backend=backend, absent=absent)).split("\n") == [
        expected,
        expected,
        "3",
    ]


@pytest.mark.slow
def test_sys_modules_may_hold_none_for_torch() -> None:
    """The other way to block an import: `sys.modules["torch"] = None`."""
    code = "import sys; sys.modules['torch'] = None; " + (
        "import ktae; print(ktae.token_credit([[1], [2]], [[1], [1]], [1, 0], [0, 0]).tolist())"
    )
    assert run(code) == "[[0.5], [-0.5]]"
