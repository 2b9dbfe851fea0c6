"""What `kills.py` runs: the three commands, small, and how far a killed one had come."""

import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent

STEPS = 4
SMALL = {
    "steps": STEPS,
    "rollout.prompts_per_step": 4,
    "rollout.group_size": 8,
    "rollout.max_response_length": 48,
    "logging.save_every": 2,
    "logging.eval_problems": 32,
}
"""Of the demo's recipes. Every second step saves, so that a step can be lost."""

PROBLEMS, SAMPLES, BATCH = 30, 4, 8
"""Of the evaluation: 15 batches of 2 problems."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """A folder at the moment of the kill."""

    doing: str
    done: int
    """Steps or problems that are written down."""
    over: bool
    """Nothing is left to do."""
    batches: dict[str, int] = dataclasses.field(default_factory=dict)
    """Those of an evaluation: when each was written."""
    under_way: dict[Path, "At"] = dataclasses.field(default_factory=dict)
    """A study's unfinished runs."""


class At(NamedTuple):
    """How far a run of a study had come."""

    attempts: int
    """Processes of it that were started."""
    log_bytes: int
    steps: int


class Resumed(NamedTuple):
    resumed_from: str
    lost: int
    """Steps or problems that were written down, and were made again."""


@dataclasses.dataclass(frozen=True)
class Command:
    """One of the three."""

    name: str
    first: str
    """The first file in its folder that says that something has begun; of an evaluation the first
    batch, since loading takes longer than all the rest."""
    last: str
    """The last one: what comes after it is no loss."""
    unit: str
    resume: tuple[str, ...] = ("--resume",)
    goes_on: bool = False
    """Whether processes of sessions of their own go on when it is killed."""

    def prepare(self, root: Path) -> None:
        """Write what it reads."""

    def arguments(self) -> list[str]:
        """Of Python, after `-m`; it runs in the folder that `prepare` was given."""
        raise NotImplementedError

    def look(self, folder: Path) -> Seen:
        """How far it had come."""
        raise NotImplementedError

    def resumed(self, folder: Path, before: Seen, log: Path) -> Resumed:
        """From where the resumed one went on."""
        raise NotImplementedError


class Train(Command):
    def arguments(self) -> list[str]:
        overrides = [f"{key}={value}" for key, value in SMALL.items()]
        return ["ktae", "train", str(recipe("grpo-ktae")), *overrides, "--output", "run"]

    def look(self, folder: Path) -> Seen:
        return Seen(doing_of(folder), steps_of(folder), (folder / "summary.json").exists())

    def resumed(self, folder: Path, before: Seen, log: Path) -> Resumed:
        step = went_on_after(log.read_text(encoding="utf-8"))
        return Resumed("?" if step is None else f"step {step}", before.done - (step or 0))


class Evaluate(Command):
    def prepare(self, root: Path) -> None:
        """The demo's problems, under the name of a benchmark that has as many."""
        from ktae import recipe as recipes
        from ktae.demo import SUMS
        from ktae.trainers.models import model_name

        rows = [{"problem": p.prompt, "answer": p.answer} for p in SUMS.test_problems(PROBLEMS)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (root / "data").mkdir()
        (root / "data/aime24.jsonl").write_text(lines, encoding="utf-8")
        (root / "model").symlink_to(Path(model_name(recipes.load(recipe("grpo")))).absolute())

    def arguments(self) -> list[str]:
        asked = ["--benchmarks", "aime24", "--data", "data", "--template", "plain"]
        sampling = ["--samples", str(SAMPLES), "--temperature", "1", "--max-new-tokens", "64"]
        more = ["--batch-size", str(BATCH), "--workers", "1", "--graders", "ktae-last"]
        return ["ktae", "eval", "model", *asked, *sampling, *more, "--output", "run"]

    def look(self, folder: Path) -> Seen:
        batches = written(folder.glob("batches/[0-9]*.jsonl"))
        done, most = len(batches) * BATCH // SAMPLES, PROBLEMS
        if any(folder.glob("batches/.*")):
            doing = "writing a batch"
        elif done < most:
            doing = "generating" if done else "loading the model"
        elif any(folder.glob(".*")):
            doing = "writing the results"
        else:
            doing = "grading"
        over = (folder / "results.json").exists()
        return Seen(doing, done, over, batches=batches)

    def resumed(self, folder: Path, before: Seen, log: Path) -> Resumed:
        after = written(folder.glob("batches/[0-9]*.jsonl"))
        again = sum(after.get(name) != when for name, when in before.batches.items())
        return Resumed(f"problem {before.done}", again * BATCH // SAMPLES)


class Study(Command):
    def prepare(self, root: Path) -> None:
        methods = {name: {"recipe": str(recipe(name))} for name in ("grpo", "grpo-ktae")}
        contrast = {"treatment": "grpo-ktae", "baseline": "grpo", "outcomes": ["mean_accuracy"]}
        matrix = {
            "name": "kills",
            "methods": methods,
            "overrides": SMALL,
            "seeds": [0],
            "base_models": {"demo_seeds": [0], "pairing": "cycled"},
            "contrasts": [contrast | {"kind": "exploratory"}],
        }
        (root / "matrix.yaml").write_text(json.dumps(matrix), encoding="utf-8")  # JSON is YAML

    def arguments(self) -> list[str]:
        return ["ktae_lab", "study", "matrix.yaml", "--output", "run"]

    def look(self, folder: Path) -> Seen:
        runs = self._runs(folder)
        unfinished = [run for run in runs if not (run / "summary.json").exists()]
        if unfinished:
            doing = f"run {len(runs)}: {doing_of(unfinished[-1])}"
        elif len(runs) < 2:
            doing = "between two runs" if runs else "beginning"
        else:
            doing = "writing tables and figures"
        over = (folder / self.last).exists()
        under_way = {run: at(run) for run in unfinished}
        return Seen(doing, sum(map(steps_of, runs)), over, under_way=under_way)

    def resumed(self, folder: Path, before: Seen, log: Path) -> Resumed:
        """That of the run under way: the study has no number of its own."""
        resumed_from, lost = "its finished runs", 0
        for run, then in before.under_way.items():
            if at(run).attempts == then.attempts:
                resumed_from = "its run, which went on"
                continue
            text = log_of(run).read_bytes()[then.log_bytes :].decode(errors="replace")
            step = went_on_after(text) or 0
            resumed_from, lost = f"step {step}", lost + then.steps - step
        return Resumed(resumed_from, lost)

    def _runs(self, folder: Path) -> list[Path]:
        """Those that have begun, the last one at the end."""
        logs = sorted(folder.glob("runs/*/*.log"), key=lambda log: log.stat().st_mtime_ns)
        return [log.with_suffix("") for log in logs]


def recipe(name: str) -> Path:
    return HERE.parent / f"recipes/demo/{name}.yaml"


def log_of(run: Path) -> Path:
    return run.with_name(run.name + ".log")


def at(run: Path) -> At:
    record = json.loads(run.with_name(run.name + ".json").read_text(encoding="utf-8"))
    return At(record["attempts"], log_of(run).stat().st_size, steps_of(run))


def steps_of(run: Path) -> int:
    """Training steps whose metrics are written."""
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def doing_of(run: Path) -> str:
    """What `ktae train` does, as its folder shows it."""
    half = [
        path
        for path in run.glob("checkpoints/checkpoint-*")
        if not (path / "trainer_state.json").exists()
    ]
    if half:
        return f"writing {half[0].name}"
    if any(run.glob(".model.*")):
        return "writing the model"
    if any(run.glob(".*")) or any(run.glob("rollouts/.*")):
        return "writing a file"
    if (run / "summary.json").exists():
        return "over"
    if (run / "model").exists():
        return "evaluating at the end"
    if not (run / "before.json").exists():
        return "evaluating at the beginning"
    return f"step {steps_of(run) + 1}" if steps_of(run) < STEPS else "after the last step"


def went_on_after(log: str) -> int | None:
    """The step that a resumed run says; None: it says nothing of it."""
    found = re.findall(r"going on after step (\d+)|beginning at step 1", log)
    return int(found[-1] or 0) if found else None


def written(paths: Iterable[Path]) -> dict[str, int]:
    """When each file was written, by name."""
    return {path.name: path.stat().st_mtime_ns for path in paths}


COMMANDS: dict[str, Command] = {
    "train": Train("train", "recipe.yaml", "summary.json", "steps"),
    "eval": Evaluate("eval", "batches/00000.jsonl", "results.json", "problems", resume=()),
    "study": Study("study", "announced.json", "figures/differences.svg", "steps", goes_on=True),
}
