"""Generation on disk, batch by batch, and what a kill leaves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ktae.errors import InputError
from ktae.evaluation.benchmarks import BenchmarkProblem
from ktae.evaluation.engines import Sample, Sampling
from ktae.evaluation.outputs import Output
from ktae.evaluation.run import EvaluationFolder, generate_all, settings_of

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


def run(folder: EvaluationFolder, engine: Any, samples: int = 1) -> list[Output]:
    sampling = Sampling(samples, 1.0, 64, batch_size=4, seed=7)
    return generate_all(folder, lambda: engine, PROBLEMS, "plain", sampling, lambda *_: None)


def settings(model: Path | str = "m", seed: int = 7) -> dict[str, Any]:
    return settings_of(str(model), "fake", "plain", PROBLEMS, Sampling(batch_size=4, seed=seed))


def claimed(path: Path) -> EvaluationFolder:
    folder = EvaluationFolder(path)
    folder.claim(settings())
    return folder


def test_outputs_come_in_the_problems_order(tmp_path: Path) -> None:
    outputs = run(claimed(tmp_path / "a"), FakeEngine(), samples=2)
    assert [(o.problem, o.sample) for o in outputs] == [
        (str(i), j) for i in range(10) for j in (0, 1)
    ]
    assert all(o.response.startswith(PROBLEMS[int(o.problem)].text + " / ") for o in outputs)
    assert [o.finished for o in outputs] == [True, False] * 10
    assert outputs[0].answers == ("0",)


def test_an_interrupted_run_equals_one_that_was_not(tmp_path: Path) -> None:
    whole = run(claimed(tmp_path / "whole"), FakeEngine())
    folder = claimed(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        run(folder, FakeEngine(dies_at=3))
    assert sorted(path.name for path in folder.batches.iterdir()) == ["00000.jsonl", "00001.jsonl"]
    (folder.batches / ".00002.jsonl.abc").write_text('{"group": "x/1", "sam')  # a kill -9
    second = FakeEngine()
    claimed(tmp_path / "cut")
    assert run(folder, second) == whole
    assert second.calls == 1
    third = FakeEngine(dies_at=0)
    assert run(folder, third) == whole


def test_what_a_killed_evaluation_was_writing_is_removed(tmp_path: Path) -> None:
    folder = claimed(tmp_path / "a")
    assert folder.remove_leftovers() == 0
    for name in ("batches/.00002.jsonl.abc", ".settings.json.a", ".results.json.b"):
        (folder.path / name).write_text("half")
    (folder.path / ".outputs.parquet.c").write_bytes(b"x" * 1000)
    (folder.path / ".mine").write_text("")
    begun(folder)
    assert folder.remove_leftovers() == 1012
    left = {str(path.relative_to(folder.path)) for path in folder.path.rglob("*")}
    assert left == {"batches", "batches/00000.jsonl", "settings.json", ".mine"}


def test_a_folder_without_settings(tmp_path: Path) -> None:
    """Of an evaluation that was killed before it had them it is taken up; others are left alone."""
    (tmp_path / "a/batches").mkdir(parents=True)
    (tmp_path / "a/.settings.json.abc").write_text('{"mod')
    assert claimed(tmp_path / "a").settings.exists()
    (tmp_path / "b/batches").mkdir(parents=True)
    (tmp_path / "b/batches/00000.jsonl").write_text("")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/notes.txt").write_text("mine")
    for name in "bc":
        with pytest.raises(InputError, match="is not an empty folder; give another --output"):
            claimed(tmp_path / name)
    (tmp_path / "c/settings.json").write_text('{"editor.fontSize": 12}')
    with pytest.raises(InputError, match="holds an evaluation with model = None"):
        claimed(tmp_path / "c")
    assert "fontSize" in (tmp_path / "c/settings.json").read_text()
    with pytest.raises(InputError, match="cannot make folder"):
        claimed(tmp_path / "c/notes.txt/a")


def test_other_settings_and_other_problems_are_refused(tmp_path: Path) -> None:
    begun(claimed(tmp_path / "a"))
    with pytest.raises(InputError, match="with seed = 7, not 8; give another --output"):
        EvaluationFolder(tmp_path / "a").claim(settings(seed=8))
    other = [PROBLEMS[0]._replace(answers=("5",)), *PROBLEMS[1:]]
    changed = settings_of("m", "fake", "plain", other, Sampling(batch_size=4, seed=7))
    with pytest.raises(InputError, match="an evaluation with problems = '10, sha256"):
        EvaluationFolder(tmp_path / "a").claim(changed)
    (tmp_path / "a/settings.json").write_text("[]")
    with pytest.raises(InputError, match=r"settings.json holds \[\]; expected settings"):
        claimed(tmp_path / "a")


def begun(folder: EvaluationFolder) -> None:
    """With a batch, which other settings would have made otherwise."""
    folder.batch(0).write_text("")


def test_other_settings_where_nothing_was_generated(tmp_path: Path) -> None:
    """A first try failed, as for a template that does not fit: there is nothing to lose."""
    claimed(tmp_path / "a")
    EvaluationFolder(tmp_path / "a").claim(settings(seed=8))
    assert json.loads((tmp_path / "a/settings.json").read_text())["seed"] == 8


def test_a_model_that_was_trained_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is given from makes no difference; a folder of the same name is another model."""
    for place in ("one", "two"):
        (tmp_path / place / "model").mkdir(parents=True)
        (tmp_path / place / "model" / "model.safetensors").write_bytes(b"before")
        (tmp_path / place / "model" / "training_args.bin").write_bytes(b"are no weights")
    monkeypatch.chdir(tmp_path / "one")
    folder = EvaluationFolder(tmp_path / "a")
    folder.claim(settings("model"))
    begun(folder)
    Path("model/training_args.bin").write_bytes(b"changed")
    folder.claim(settings("../one/model"))
    Path("model/model.safetensors").write_bytes(b"after")
    message = r"of .*/model, whose weights have changed since \(\w{16} "
    with pytest.raises(InputError, match=message):
        folder.claim(settings("model"))
    monkeypatch.chdir(tmp_path / "two")
    with pytest.raises(InputError, match=r"with model = '.*/one/model', not '.*/two/model'"):
        folder.claim(settings("model"))


def test_a_model_by_name_and_a_folder_without_weights(tmp_path: Path) -> None:
    assert settings("Qwen/Qwen2.5-Math-1.5B")["model"] == "Qwen/Qwen2.5-Math-1.5B"
    assert "weights" not in settings("Qwen/Qwen2.5-Math-1.5B")
    with pytest.raises(InputError, match=r"no weights \(\*.safetensors or "):
        settings(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a batch of ktae eval"),
        ("5\n", "is not a batch of ktae eval"),
        (json.dumps({"group": "x/77"}) + "\n", "holds other problems"),
    ],
)
def test_a_broken_batch(content: str, message: str, tmp_path: Path) -> None:
    folder = claimed(tmp_path / "a")
    folder.batch(0).write_text(content)
    with pytest.raises(InputError, match=message):
        run(folder, FakeEngine())
