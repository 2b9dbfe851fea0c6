"""Train a recipe through verl, in a process of its own, into a run folder."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ktae.errors import InputError
from ktae.experiments import recipe as recipes
from ktae.experiments.demo import LANGUAGES
from ktae.experiments.recipe import Recipe
from ktae.experiments.run_folder import RunFolder
from ktae.experiments.tasks import Task, task_of
from ktae.experiments.tasks.base import write
from ktae.experiments.verl.overrides import Overrides, Paths, arguments, command, compose, overrides
from ktae.files.atomic import make_folder
from ktae.files.hub import local_or_hub
from ktae.grading.workers import default_pool
from ktae.trainers.verl.options import REWARD

MODULES = "VERL_USE_EXTERNAL_MODULES"
PASSED_ON = (
    "ONEDNN_MAX_CPU_ISA",
    "HF_HUB_DISABLE_TELEMETRY",
    "RAY_USAGE_STATS_ENABLED",
    "VLLM_NO_USAGE_STATS",
)
"""What processes on other nodes have to be told: instructions for oneDNN, and no telemetry."""


def plan(recipe: Recipe, folder: RunFolder, *, resume: bool = False) -> tuple[Overrides, Paths]:
    """The checked overrides of a run, and Hydra's own of where its logs go; and its paths.

    Raises:
        InputError: verl is absent or of another version, a key is unknown to it, or the recipe
            asks for what verl cannot do. Nothing is written or trained.
    """
    paths = _paths(recipe, folder)
    settings = overrides(recipe, paths, resume=resume, environment=_environment(folder))
    compose(settings)
    return settings | {"hydra.run.dir": str(paths.output / "hydra")}, paths


def dry_run(recipe: Recipe, folder: RunFolder) -> str:
    """The command that the run would start, to copy, after what there is to know of it."""
    settings, paths = plan(recipe, folder)
    writer = "ktae train" if task_of(recipe).is_made else "ktae data prepare"
    absent = dict.fromkeys((paths.train, paths.test), f"`{writer}` writes it")
    if recipe.model.path == "demo":
        absent[Path(paths.model)] = "`ktae train` pretrains it"
    lines = [
        f"# {path} does not exist yet; {how}" for path, how in absent.items() if not path.exists()
    ]
    run_folder = shlex.quote(str(folder.path.absolute()))
    # Where the run is started, and from where it imports, is part of the command.
    lines += [f"mkdir -p {run_folder} && cd {run_folder} && \\"]
    variables = _environment(folder) | {"PYTHONPATH": _import_path()}
    return "\n".join([*lines, command(settings, variables)])


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
    task = task_of(recipe)
    if task.plays_episodes:
        raise InputError(
            f"the language {recipe.demo.language} takes several turns, which TRL trains; use "
            "--engine trl, or an agent loop of verl's with the mode ktae_sync"
        )
    settings, paths = plan(recipe, folder, resume=resume)
    if not task.is_made:
        for path in (paths.train, paths.test):
            if not path.is_file():
                raise InputError(f"{path} does not exist; `ktae data prepare` writes it")
    if task.verl_reward()[0] == REWARD:
        # verl would only note for each rollout that there is no grader, and go on without.
        default_pool()
    if recipe.model.path == "demo":
        from ktae.experiments.demo.pretrain import base_model

        base_model(LANGUAGES[recipe.demo.language], recipe.model.demo_seed)
    with folder.held() as lock:
        if not resume:
            folder.create(recipes.dump(recipe))
            make_folder(folder.tokenizer)
            for file in Path(paths.model).glob("tokenizer*.json"):
                shutil.copy(file, folder.tokenizer)
        elif folder.metrics.exists():
            # verl begins the file anew; the one of before gets a number.
            earlier = len(list(folder.path.glob("metrics-*.jsonl")))
            folder.metrics.rename(folder.path / f"metrics-{earlier + 1}.jsonl")
        if task.is_made:
            _write_data(task, folder.path / "data")
        environment = os.environ | _environment(folder) | {"PYTHONPATH": _import_path()}
        # -P: not from the run folder either, which holds whatever the run writes.
        program = [sys.executable, "-P", "-m", "verl.trainer.main_ppo", *arguments(settings)]
        return subprocess.run(
            program, env=environment, cwd=folder.path, check=False, pass_fds=[lock]
        ).returncode


def _import_path() -> str:
    """PYTHONPATH for the run. Ray's workers import from the folder that verl is started in, before
    anything else: that must not be one in which somebody's data lies."""
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(path for path in map(os.path.abspath, paths) if path != os.getcwd())


def _environment(folder: RunFolder) -> dict[str, str]:
    """Loud loading of the plug-in, beside whatever else is asked for; where metrics go; and what is
    passed on."""
    modules = os.environ.get(MODULES, "").split(",")
    others = [name for name in modules if name and name != "ktae.trainers.verl"]
    return {
        MODULES: ",".join(["ktae.trainers.verl", *others]),
        "VERL_FILE_LOGGER_PATH": str(folder.metrics.absolute()),
        "TENSORBOARD_DIR": str((folder.path / "tensorboard").absolute()),
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
    }


def _paths(recipe: Recipe, folder: RunFolder) -> Paths:
    """Where the run finds its model and data; the demo's may not be there yet."""
    if recipe.model.path == "demo":
        from ktae.experiments.demo.pretrain import base_model_folder  # which needs transformers

        language = LANGUAGES[recipe.demo.language]
        model = str(base_model_folder(language, recipe.model.demo_seed))
    else:
        model = local_or_hub("model", recipe.model.path)
        model = os.path.abspath(model) if os.path.isdir(model) else model
    root = (folder.path / "data") if recipe.data is None else Path(os.path.expanduser(recipe.data))
    data = root.absolute() / "verl"
    return Paths(model, data / "train.parquet", data / "test.parquet", folder.path.absolute())


def _write_data(task: Task, folder: Path) -> None:
    """The task's problems: one for each prompt of the run, and the held-out ones."""
    splits = {"train": task.train_rows(), "test": task.held_out_rows()}
    write(splits, folder, data_source=task.data_source)
