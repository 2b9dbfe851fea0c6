"""The code blocks of docs/extending.md do what the page says of them."""

import functools
import inspect
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pages
import pytest
from ktae.config import PRESETS

from ktae import InputError, KTAEConfig
from ktae import recipe as recipes
from ktae.backends import BACKENDS
from ktae.evaluation import benchmarks, run
from ktae.evaluation.benchmarks import BENCHMARKS, Benchmark
from ktae.evaluation.engines import Engine, Sample, Sampling
from ktae.grading.graders import GRADERS
from ktae.grading.verdict import Outcome, Verdict

TEXT = pages.page("extending")


def block(heading: str) -> str:
    (code,) = pages.blocks(pages.section(TEXT, heading), "python")
    return code


def run_block(heading: str) -> dict[str, Any]:
    names = {
        "BENCHMARKS": BENCHMARKS,
        "Benchmark": Benchmark,
        "KTAEConfig": KTAEConfig,
        "Outcome": Outcome,
        "PRESETS": PRESETS,
        "Sample": Sample,
        "Sampling": Sampling,
        "Sequence": Sequence,
        "Verdict": Verdict,
        "functools": functools,
    }
    exec(block(heading), names)
    return names


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backends_terms_have_this_signature(name: str) -> None:
    if BACKENDS[name].missing():
        pytest.skip(f"{name}: {BACKENDS[name].missing()}")
    names: dict[str, Any] = {}
    exec(block("## A backend"), names)
    parameters = inspect.signature(BACKENDS[name].load().terms).parameters
    expected = inspect.signature(names["terms"]).parameters
    assert [(p.name, p.kind) for p in parameters.values()] == [
        (p.name, p.kind) for p in expected.values()
    ]


@pytest.fixture(autouse=True)
def tables_as_they_were() -> Iterator[None]:
    """The blocks add lines to tables of the package."""
    before = [(table, dict(table)) for table in (PRESETS, BENCHMARKS)]
    yield
    for table, content in before:
        table.clear()
        table.update(content)


def test_a_preset() -> None:
    known = set(PRESETS)
    run_block("### A preset")
    (name,) = set(PRESETS) - known
    config = KTAEConfig.preset(name, term_scale=0.5)
    assert config == KTAEConfig.calibrated(units=("bigram",), term_scale=0.5)
    assert recipes.KTAE(preset=name, h3=0).config() == KTAEConfig.preset(name, h3=0)


def test_a_benchmark(tmp_path: Path) -> None:
    known = set(BENCHMARKS)
    run_block("### A benchmark for evaluation")
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
    grader = run_block("### A grader")["last_word"]
    verdict = grader(response, ["7", "seven"])
    assert isinstance(verdict, Verdict) and verdict.outcome is outcome
    # Those that are there take the same.
    ours = GRADERS["strict-boxed"]
    assert list(inspect.signature(grader).parameters) == list(inspect.signature(ours).parameters)


def test_something_that_generates(tmp_path: Path) -> None:
    engine: Engine = run_block("### Something that generates")["EchoEngine"]("anything")
    problems = [
        benchmarks.Problem("mine", number, f"say {number}", (str(number),)) for number in range(5)
    ]
    folder = run.EvaluationFolder(tmp_path / "evals")
    sampling = Sampling(samples=2, temperature=1.0)
    how: dict[str, Any] = {"batch_size": 3, "seed": 0}
    folder.claim(run.settings_of("anything", "echo", "plain", problems, sampling, **how))
    outputs = run.generate_all(
        folder, lambda: engine, problems, "plain", sampling, progress=lambda *_: None, **how
    )
    assert "".join(output.response for output in outputs) == "0011223344"
