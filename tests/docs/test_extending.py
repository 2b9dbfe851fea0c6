"""The code blocks of docs/extending.md do what the page says of them."""

import dataclasses
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pages
import pytest

from ktae import InputError, backends, preset, token_credit
from ktae.estimators import (
    KINDS,
    KTAE,
    PRESETS,
    TRANSFORMS,
    OverUnits,
    PresenceZ,
    Scaled,
    from_section,
    to_section,
)
from ktae.estimators.transforms import Moved
from ktae.evaluation import benchmarks, run
from ktae.evaluation.benchmarks import BENCHMARKS, Benchmark
from ktae.evaluation.engines import Engine, Sample, Sampling
from ktae.grading.graders import GRADERS
from ktae.grading.verdict import Outcome, Verdict

TEXT = pages.page("extending")


def run_blocks(heading: str) -> dict[str, Any]:
    names = {
        "BENCHMARKS": BENCHMARKS,
        "Benchmark": Benchmark,
        "Moved": Moved,
        "Outcome": Outcome,
        "OverUnits": OverUnits,
        "PRESETS": PRESETS,
        "PresenceZ": PresenceZ,
        "Sample": Sample,
        "Sampling": Sampling,
        "Scaled": Scaled,
        "Sequence": Sequence,
        "TRANSFORMS": TRANSFORMS,
        "Verdict": Verdict,
        "dataclasses": dataclasses,
    }
    for code in pages.blocks(pages.section(TEXT, heading), "python"):
        exec(code, names)
    return names


def test_a_backends_credit_has_this_signature() -> None:
    expected = inspect.signature(run_blocks("## A backend")["credit"]).parameters
    assert list(inspect.signature(backends.credit).parameters) == list(expected)


@pytest.fixture(autouse=True)
def tables_as_they_were() -> Iterator[None]:
    """The blocks add lines to tables of the package."""
    tables: tuple[dict[str, Any], ...] = (PRESETS, KINDS, TRANSFORMS, BENCHMARKS)
    before = [(table, dict(table)) for table in tables]
    yield
    for table, content in before:
        table.clear()
        table.update(content)


@pytest.fixture
def new_estimator(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, dict[str, Any]]:
    """The page's module, in the registry, and its tests; each block alone with its own imports."""
    module, line, tests = pages.blocks(
        pages.section(TEXT, "### An estimator with a name"), "python"
    )
    name = "ktae.estimators.mean_presence"
    made = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, made)
    exec(module, vars(made))
    exec(line, {})
    names: dict[str, Any] = {}
    exec(tests, names)
    return made, {key: value for key, value in names.items() if key.startswith("test_")}


def test_an_estimator_with_a_name(new_estimator) -> None:
    """The tests that the page prints."""
    _, tests = new_estimator
    assert len(tests) == 3
    for test in tests.values():
        test()


@pytest.mark.parametrize("change", [lambda x: -x, lambda x: x + 0.01])
def test_its_printed_tests_find_a_mistake(new_estimator, monkeypatch, change) -> None:
    module, tests = new_estimator
    right = module.MeanPresence.of_arrays
    monkeypatch.setattr(module.MeanPresence, "of_arrays", lambda *args: change(right(*args)))
    for name in sorted(set(tests) - {"test_settings"}):
        with pytest.raises(AssertionError):
            tests[name]()


def test_a_preset() -> None:
    known = set(PRESETS)
    run_blocks("### A preset")
    (name,) = set(PRESETS) - known
    assert preset(name) == Scaled(OverUnits(PresenceZ(), ("bigram",)), 0.3)
    assert preset(name, graded_rewards=True) == from_section(
        {"estimator": name, "graded_rewards": True}
    )
    assert to_section(preset(name)) == name


def test_a_transform() -> None:
    known = set(TRANSFORMS)
    run_blocks("### A transform")
    (name,) = set(TRANSFORMS) - known
    own = from_section({"estimator": "ktae", "transforms": [name, {"scaled": 2}]})
    assert from_section(to_section(own)) == own
    arrays = [[1], [2]], [[1], [1]], [1, 0], [0, 0]
    np.testing.assert_allclose(token_credit(*arrays, KTAE()), [[0.5], [-0.5]], atol=1e-6)
    np.testing.assert_allclose(token_credit(*arrays, own), [[1.0], [0.0]], atol=1e-6)


def test_a_benchmark(tmp_path: Path) -> None:
    known = set(BENCHMARKS)
    run_blocks("### A benchmark for evaluation")
    (name,) = set(BENCHMARKS) - known
    file = tmp_path / f"{BENCHMARKS[name].files[0]}.jsonl"
    rows = [{"problem": "1 + 1?", "answer": 2}, {"question": "2?", "final_answer": ["2", "two"]}]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(InputError, match="2 problems; expected 3"):
        benchmarks.load(name, tmp_path)
    rows.append({"problem": "1.5 + 1.5?", "answer": "so #### 3"})
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [p.answers for p in benchmarks.load(name, tmp_path)] == [("2",), ("2", "two"), ("3",)]


@pytest.mark.parametrize(
    ("response", "outcome"),
    [("so it is 7", Outcome.CORRECT), ("so it is 8", Outcome.INCORRECT), ("", Outcome.UNANSWERED)],
)
def test_a_grader(response: str, outcome: Outcome) -> None:
    grader = run_blocks("### A grader")["last_word"]
    verdict = grader(response, ["7", "seven"])
    assert isinstance(verdict, Verdict) and verdict.outcome is outcome
    # Those that are there take the same.
    ours = GRADERS["strict-boxed"]
    assert list(inspect.signature(grader).parameters) == list(inspect.signature(ours).parameters)


def test_something_that_generates(tmp_path: Path) -> None:
    engine: Engine = run_blocks("### Something that generates")["EchoEngine"]("anything")
    problems = [
        benchmarks.BenchmarkProblem("mine", number, f"say {number}", (str(number),))
        for number in range(5)
    ]
    folder = run.EvaluationFolder(tmp_path / "evals")
    sampling = Sampling(samples=2, temperature=1.0)
    how: dict[str, Any] = {"batch_size": 3, "seed": 0}
    folder.claim(run.settings_of("anything", "echo", "plain", problems, sampling, **how))
    outputs = run.generate_all(
        folder, lambda: engine, problems, "plain", sampling, progress=lambda *_: None, **how
    )
    assert "".join(output.response for output in outputs) == "0011223344"
