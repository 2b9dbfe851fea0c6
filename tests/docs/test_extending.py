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

from ktae import InputError, backends, estimators, preset, token_credit
from ktae.estimators import KINDS, PRESETS, TRANSFORMS, OverUnits, PresenceZ, Scaled
from ktae.estimators.transforms import Moved
from ktae.evaluation.benchmarks import BENCHMARKS, Benchmark, load
from ktae.evaluation.engines import Sample, Sampling
from ktae.grading.graders import GRADERS
from ktae.grading.verdict import Outcome, Verdict

BACKEND, MODULE, LINE, TESTS, *OTHERS = pages.blocks("extending", "python")
NAMES = (dataclasses, Benchmark, Moved, Outcome, OverUnits, PresenceZ, Sample, Sampling, Scaled)


@pytest.fixture
def page() -> Iterator[dict[str, Any]]:
    """What the page's blocks define; the tables of the package are put right again."""
    tables: dict[str, Any] = {"PRESETS": PRESETS, "TRANSFORMS": TRANSFORMS, "KINDS": KINDS}
    tables["BENCHMARKS"] = BENCHMARKS
    before = {name: dict(table) for name, table in tables.items()}
    names = {thing.__name__: thing for thing in (*NAMES, Sequence, Verdict)} | tables
    for code in (BACKEND, *OTHERS):
        exec(code, names)
    yield names
    for name, table in tables.items():
        table.clear()
        table.update(before[name])


def test_a_backend(page) -> None:
    assert [*inspect.signature(page["credit"]).parameters] == [
        *inspect.signature(backends.credit).parameters
    ]


@pytest.fixture
def new_estimator(page, monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, dict[str, Any]]:
    """The page's module, in the registry, and the tests that the page prints."""
    name = "ktae.estimators.mean_presence"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(MODULE, vars(module))
    exec(LINE, {})
    names: dict[str, Any] = {}
    exec(TESTS, names)
    return module, {key: value for key, value in names.items() if key.startswith("test_")}


def test_an_estimator_with_a_name(new_estimator) -> None:
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


def test_a_preset(page) -> None:
    assert preset("bigrams") == Scaled(OverUnits(PresenceZ(), ("bigram",)), 0.3)
    assert estimators.to_section(preset("bigrams")) == "bigrams"


def test_a_transform(page) -> None:
    wrapped = estimators.from_section(
        {"estimator": "ktae", "transforms": ["only-positive", {"scaled": 2}]}
    )
    assert estimators.from_section(estimators.to_section(wrapped)) == wrapped
    credit = token_credit([[1], [2]], [[1], [1]], [1, 0], [0, 0], wrapped)
    np.testing.assert_allclose(credit, [[1.0], [0.0]], atol=1e-6)


def test_a_benchmark(page, tmp_path: Path) -> None:
    file = tmp_path / "my_problems.jsonl"
    rows = [{"problem": "1 + 1?", "answer": 2}, {"question": "2?", "final_answer": ["2", "two"]}]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(InputError, match="2 problems; expected 3"):
        load("mine", tmp_path)
    rows.append({"problem": "1.5 + 1.5?", "answer": "so #### 3"})
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert [p.answers for p in load("mine", tmp_path)] == [("2",), ("2", "two"), ("3",)]


def test_a_grader(page) -> None:
    grader, ours = page["last_word"], GRADERS["strict-boxed"]
    responses = {"so it is 7": "correct", "so it is 8": "incorrect", "": "unanswered"}
    for response, outcome in responses.items():
        assert grader(response, ["7", "seven"]).outcome is Outcome(outcome)
    assert [*inspect.signature(grader).parameters] == [*inspect.signature(ours).parameters]


def test_something_that_generates(page) -> None:
    engine = page["EchoEngine"]("anything")
    samples = engine.generate(["say 1", "say 2"], Sampling(samples=2, temperature=1.0), seed=0)
    assert samples == [[Sample("1", 1, True)] * 2, [Sample("2", 1, True)] * 2]
