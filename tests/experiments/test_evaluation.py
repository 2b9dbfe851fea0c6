"""Generation on disk, batch by batch, and what a kill leaves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktae.errors import InputError
from ktae.experiments.benchmarks import BenchmarkProblem
from ktae.experiments.engines import Sample, Sampling
from ktae.experiments.evaluation import EvaluationFolder, generate_all, settings_of

PROBLEMS = [BenchmarkProblem("x", i, f"problem {i}" + "!" * (i % 3), (str(i),)) for i in range(10)]


class FakeEngine:
    """Answers with the prompt, the seed and the sample's number; dies where it is told to."""

    batch_size = 4
    tokenizer = None

    def __init__(self, dies_at: int = 99) -> None:
        self.calls = 0
        self.dies_at = dies_at

    def generate(self, prompts: Sequence[str], sampling: Sampling, seed: int) -> list[list[Sample]]:
        self.calls += 1
        if self.calls >= self.dies_at:
            raise KeyboardInterrupt
        samples = range(sampling.samples)
        return [[Sample(f"{p} / {seed} / {i}", len(p), i == 0) for i in samples] for p in prompts]


def run(folder: EvaluationFolder, engine: Any, samples: int = 1) -> Any:
    sampling = Sampling(samples, 1.0, 64, batch_size=4, seed=7)
    return generate_all(folder, PROBLEMS, sampling, lambda: engine, lambda *_: None)


def settings(model: str = "m", seed: int = 7, problems: Any = PROBLEMS) -> dict[str, Any]:
    return settings_of(model, "fake", problems, Sampling(1, 1.0, 64, batch_size=4, seed=seed))


def claimed(path: Path, begun: bool = False) -> EvaluationFolder:
    """`begun`: with a batch, which other settings would have made otherwise."""
    folder = EvaluationFolder(path)
    folder.claim(settings())
    if begun:
        folder.batch(0).write_text("")
    return folder


def test_outputs_come_in_the_problems_order(tmp_path: Path) -> None:
    outputs = run(claimed(tmp_path / "a"), FakeEngine(), samples=2).to_pydict()
    assert outputs["problem"] == [f"x/{i}" for i in range(10) for _ in range(2)]
    for i, response in enumerate(outputs["response"]):
        assert response.startswith(f"{PROBLEMS[i // 2].prompt} / ") and response.endswith(
            f" {i % 2}"
        )
    assert outputs["finished"] == [True, False] * 10
    assert outputs["answers"][0] == ["0"]


def test_an_interrupted_run_equals_one_that_was_not(tmp_path: Path) -> None:
    expected = run(claimed(tmp_path / "all"), FakeEngine())
    folder = claimed(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        run(folder, FakeEngine(dies_at=3))
    (folder.batches / ".00002.part.abc").write_text('{"group": "x/1", "sam')  # a kill -9
    second = FakeEngine()
    assert run(claimed(tmp_path / "cut"), second) == expected
    assert second.calls == 1
    assert run(folder, FakeEngine(dies_at=0)) == expected


def test_what_a_killed_evaluation_was_writing_is_removed(tmp_path: Path) -> None:
    folder = claimed(tmp_path / "a", begun=True)
    for name in ("batches/.00002.part.abc", ".settings.json.a", ".outputs.parquet.c"):
        (folder.path / name).write_text("half")
    folder.claim(settings())
    left = {path.name for path in folder.path.rglob("*")}
    assert left == {"batches", "00000.part", "settings.json"}


def test_a_folder_without_settings(tmp_path: Path) -> None:
    """It is taken up if an evaluation was killed before it had them. Others are left alone."""
    (tmp_path / "a/batches").mkdir(parents=True)
    (tmp_path / "a/.settings.json.abc").write_text('{"mod')
    assert claimed(tmp_path / "a").settings.exists()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/notes.txt").write_text("mine")
    with pytest.raises(InputError):
        claimed(tmp_path / "b")
    (tmp_path / "b/settings.json").write_text('{"editor.fontSize": 12}')
    with pytest.raises(InputError, match="model"):
        claimed(tmp_path / "b")


def test_other_settings_and_other_problems_are_refused(tmp_path: Path) -> None:
    """Unless nothing was generated: a first try failed, as for a template that does not fit."""
    folder = claimed(tmp_path / "a")
    folder.claim(settings(seed=8))
    assert json.loads(folder.settings.read_text())["seed"] == 8
    folder.batch(0).write_text("")
    with pytest.raises(InputError, match="seed"):
        claimed(tmp_path / "a")
    other = [PROBLEMS[0]._replace(answers=("5",)), *PROBLEMS[1:]]
    changed = settings(seed=8, problems=other)
    with pytest.raises(InputError, match="problems"):
        folder.claim(changed)


def test_a_model_that_was_trained_again_is_refused(tmp_path, monkeypatch) -> None:
    """Where it is given from makes no difference; a folder of the same name is another model."""
    for place in ("one", "two"):
        (tmp_path / place / "model").mkdir(parents=True)
        (tmp_path / place / "model" / "model.safetensors").write_bytes(b"before")
    monkeypatch.chdir(tmp_path / "one")
    before = settings("model")
    assert settings("../one/model") == before
    Path("model/training_args.bin").write_bytes(b"are no weights")
    assert settings("model") == before
    Path("model/model.safetensors").write_bytes(b"after")
    assert settings("model")["weights"] != before["weights"]
    monkeypatch.chdir(tmp_path / "two")
    assert settings("model")["model"] != before["model"]
    assert not settings("Qwen/Qwen2.5-Math-1.5B")["weights"]
