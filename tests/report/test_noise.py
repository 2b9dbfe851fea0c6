"""On random labels a page claims nothing. A hundred draws are in `benchmarks/noise_claims.py`."""

import importlib.util
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "benchmarks/noise_claims.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("noise_claims", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ten_draws_of_two_templates_make_no_claim(bench):
    made = [bench.claims(bench.page_of(bench.templates(seed, groups=60))) for seed in range(10)]
    assert sum(map(bool, made)) <= 1, made


def test_ten_permutations_of_clear_evidence_make_no_claim_and_the_evidence_does(bench):
    rollouts = bench.templates(0, groups=25)
    # The template decides: the first one of each group is correct.
    first = {}
    responses = rollouts["response"].to_pylist()
    correct = [
        float(first.setdefault(group, text.split()[0]) == text.split()[0])
        for group, text in zip(rollouts["group"].to_pylist(), responses, strict=True)
    ]
    for name in ("correct", "reward"):
        place = rollouts.column_names.index(name)
        rollouts = rollouts.set_column(place, rollouts.schema.field(name), [correct])
    assert bench.claims(bench.page_of(rollouts))
    made = [bench.claims(bench.page_of(bench.permuted(rollouts, seed))) for seed in range(10)]
    assert sum(map(bool, made)) <= 1, made
