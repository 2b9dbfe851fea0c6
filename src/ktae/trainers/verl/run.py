"""Train a recipe through verl, in a process of its own, into a run folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.files.hub import local_or_hub
from ktae.recipe import Recipe
from ktae.runs import RunFolder
from ktae.trainers.verl.check import compose, typed
from ktae.trainers.verl.overrides import Overrides, Paths, arguments, command, overrides
from ktae.trainers.verl.reward import demo_source, math_grader

MODULES = "VERL_USE_EXTERNAL_MODULES"
ONEDNN_ISA = "ONEDNN_MAX_CPU_ISA"


def plan(recipe: Recipe, folder: RunFolder, *, resume: bool = False) -> Overrides:
    """The checked overrides of a run, and Hydra's own of where its logs go.

    Raises:
        InputError: verl is absent or of another version, a key is unknown to it, or the recipe
            asks for what verl cannot do. Nothing is written or trained.
    """
    paths = Paths(_model(recipe), *_data(recipe, folder), folder.path.absolute())
    settings = typed(overrides(recipe, paths, resume=resume, environment=_environment(folder)))
    compose(settings)
    return settings | {"hydra.run.dir": str(paths.output / "hydra")}


def dry_run(recipe: Recipe, folder: RunFolder) -> str:
    """The command that the run would start, to copy, after what there is to know of it."""
    settings = plan(recipe, folder)
    writer = "ktae data prepare" if recipe.task == "math" else "ktae train"
    absent = dict.fromkeys(_data(recipe, folder), f"`{writer}` writes it")
    if recipe.model.path == "demo":
        absent[Path(_model(recipe))] = "`ktae train` pretrains it"
    lines = [
        f"# {path} does not exist yet; {how}" for path, how in absent.items() if not path.exists()
    ]
    return "\n".join([*lines, command(settings, _environment(folder))])


def run(recipe: Recipe, folder: RunFolder, *, resume: bool) -> int:
    """Train; verl's exit status. Its output goes where this process's goes.

    Raises:
        InputError: as `plan`; the folder is taken, there is nothing to resume, or data is missing.
    """
    if resume:
        recipes.require_same(recipe, folder.recipe)
        if checkpoints := folder.all_checkpoints():
            # verl would overlook them and start from the beginning.
            raise InputError(
                f"{checkpoints[0]} is TRL's, so verl cannot continue from it; "
                "resume with --engine trl, or give another --output"
            )
    else:
        folder.require_free()
    settings = plan(recipe, folder, resume=resume)
    if recipe.task == "math":
        for path in _data(recipe, folder):
            if not path.is_file():
                raise InputError(f"{path} does not exist; `ktae data prepare` writes it")
        math_grader()
    if recipe.model.path == "demo":
        _demo_model(recipe, pretrain=True)
    if not resume:
        folder.create(recipes.dump(recipe))
    elif folder.metrics.exists():  # verl begins the file anew; the one of before gets a number
        earlier = len(list(folder.path.glob("metrics-*.jsonl")))
        folder.metrics.rename(folder.path / f"metrics-{earlier + 1}.jsonl")
    if recipe.task == "demo":
        _write_demo(recipe, folder)
    elif recipe.task != "math":
        _write_rows(recipe, folder)
    environment = os.environ | _environment(folder)
    # Ray's workers import from the folder that verl is started in, before anything else: that must
    # not be one in which somebody's data lies.
    here = os.getcwd()
    paths = map(os.path.abspath, filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != here)
    program = [sys.executable, "-P", "-m", "verl.trainer.main_ppo", *arguments(settings)]
    return subprocess.run(program, env=environment, cwd=folder.path, check=False).returncode


def _environment(folder: RunFolder) -> dict[str, str]:
    """Loud loading of the plug-in, beside whatever else is asked for; where metrics go; and which
    instructions oneDNN may use, which Ray's workers have to be told."""
    modules = os.environ.get(MODULES, "").split(",")
    others = [name for name in modules if name and name != "ktae.trainers.verl"]
    return {
        MODULES: ",".join(["ktae.trainers.verl", *others]),
        "VERL_FILE_LOGGER_PATH": str(folder.metrics.absolute()),
        "TENSORBOARD_DIR": str((folder.path / "tensorboard").absolute()),
        **{name: os.environ[name] for name in [ONEDNN_ISA] if name in os.environ},
    }


def _model(recipe: Recipe) -> str:
    """The folder or hub name of the recipe's model; the demo's base model may not be there yet."""
    if recipe.model.path != "demo":
        name = local_or_hub("model", recipe.model.path)
        return os.path.abspath(name) if os.path.isdir(name) else name
    return str(_demo_model(recipe, pretrain=False))


def _demo_model(recipe: Recipe, *, pretrain: bool) -> Path:
    """The folder of the demo's base model, which is made there if `pretrain` says so."""
    from ktae.demo import language_named
    from ktae.demo.pretrain import base_model, base_model_folder

    make = base_model if pretrain else base_model_folder
    return make(language_named(recipe.demo.language), recipe.model.demo_seed)


def _data(recipe: Recipe, folder: RunFolder) -> tuple[Path, Path]:
    """verl's training and validation files."""
    root = (folder.path / "data") if recipe.data is None else Path(os.path.expanduser(recipe.data))
    files = root.absolute() / "verl"
    return files / "train.parquet", files / "test.parquet"


def _write_demo(recipe: Recipe, folder: RunFolder) -> None:
    """The demo's problems: one for each prompt of the run, and the held-out ones."""
    from ktae.data.prepare import write
    from ktae.data.sources import TaskProblem
    from ktae.demo import language_named

    language = language_named(recipe.demo.language)
    n = recipe.steps * recipe.rollout.prompts_per_step
    splits = {
        "train": language.train_problems(n, seed=recipe.seed),
        "test": language.test_problems(recipe.logging.eval_problems),
    }
    problems = {
        split: [TaskProblem(p.prompt, str(p.answer)) for p in some]
        for split, some in splits.items()
    }
    write(problems, folder.path / "data", data_source=demo_source(language.name), template="plain")


def _write_rows(recipe: Recipe, folder: RunFolder) -> None:
    """The same for a task that a mapping names; a row's ground truth is what its grader needs."""
    from ktae.data import tasks
    from ktae.data.prepare import write_rows

    splits = {"train": tasks.train_rows(recipe), "test": tasks.held_out_rows(recipe)}
    rows = {split: [(row.prompt, row.reference) for row in some] for split, some in splits.items()}
    write_rows(rows, folder.path / "data", data_source=tasks.data_source(recipe))
