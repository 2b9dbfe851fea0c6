"""What importing and running the core costs: NumPy, and numba when it computes. Nothing else."""

import subprocess
import sys

import pytest

HEAVY = ["torch", "trl", "verl", "numba", "pandas", "transformers", "scipy", "pyarrow", "pydantic"]


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("ktae, ktae.counting.naive, ktae.estimators.units, ktae.estimators.controls", HEAVY),
        # Grading leaves its libraries to the workers.
        ("ktae.grading", [*HEAVY, "math_verify", "sympy"]),
        ("ktae.experiments.demo", ["torch", "transformers"]),
        ("ktae.trainers.verl", ["torch", "numba", "verl.trainer", "ktae.trainers.verl.advantages"]),
    ],
)
def test_import_loads_nothing_heavy(modules: str, heavy: list[str]) -> None:
    assert run(f"import {modules}, sys; print([m for m in {heavy} if m in sys.modules])") == "[]"


COMPUTE = """
import sys
for name in {absent}:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
import ktae
ids, mask, correct, groups = [[1, 2], [1, 3]], [[1, 1], [1, 1]], [1, 0], [0, 0]
print(ktae.token_credit(ids, mask, correct, groups, "paper").tolist())
print(ktae.token_advantages(correct, ids, mask, groups, base=[0, 0], credit="paper").tolist())
print(len(ktae.credit_table(ids, mask, correct, groups).credit))
"""


def test_core_computes_with_numpy_and_numba_alone() -> None:
    """A token of the one correct rollout gets 0.5, one of the one incorrect rollout -0.5."""
    expected = "[[0.0, 0.5], [0.0, -0.5]]"
    printed = run(COMPUTE.format(absent=[x for x in HEAVY if x != "numba"]))
    assert printed.split("\n") == [expected, expected, "3"]
