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
from ktae.experiments.demo.pretrain import policy_path
from ktae.experiments.recipe import Recipe
from ktae.experiments.run_folder import RunFolder
from ktae.experiments.tasks import task_of
from ktae.experiments.tasks.base import write
from ktae.experiments.verl import overrides as verl
from ktae.files.atomic import make_folder
from ktae.grading.workers import default_pool

MODULES = "VERL_USE_EXTERNAL_MODULES"
PASSED_ON = (
    "ONEDNN_MAX_CPU_ISA",
    "HF_HUB_DISABLE_TELEMETRY",
    "RAY_USAGE_STATS_ENABLED",
    "VLLM_NO_USAGE_STATS",
)
"""Variables that processes on other nodes need, too: for oneDNN, and against telemetry."""


def plan(recipe: Recipe, folder: RunFolder, *, resume: bool = False) -> verl.Overrides:
    """The overrides of a run, checked by verl's own configuration; nothing is written."""
    path, environment = folder.path.absolute(), _environment(folder)
    del environment["PYTHONPATH"]  # of the process that starts the run
    model = policy_path(recipe, make=False)
    settings = verl.overrides(recipe, model, path, resume=resume, environment=environment)
    verl.compose(settings)
    return settings | {"hydra.run.dir": str(path / "hydra")}


def dry_run(recipe: Recipe, folder: RunFolder) -> str:
    """The command that the run would start, to copy, after comments on files that are missing."""
    settings, path = plan(recipe, folder), folder.path.absolute()
    absent = dict.fromkeys(verl.problem_files(path).values(), "`ktae train` writes it")
    if recipe.model.path == "demo":
        absent[Path(policy_path(recipe, make=False))] = "`ktae train` pretrains it"
    lines = [
        f"# {file} does not exist yet; {how}" for file, how in absent.items() if not file.exists()
    ]
    # Where the run is started, and from where it imports, is part of the command.
    quoted = shlex.quote(str(path))
    command = verl.command(settings, _environment(folder))
    return "\n".join([*lines, f"mkdir -p {quoted} && cd {quoted} && \\", command])


def run(recipe: Recipe, folder: RunFolder, *, resume: bool) -> int:
    """Train; return verl's exit status. Its output goes where this process's goes."""
    if resume:
        recipes.require_same(recipe, folder.recipe)
        if checkpoint := folder.last_checkpoint():
            # verl would overlook them and start from the beginning.
            raise InputError(
                f"{checkpoint} is TRL's, so verl cannot continue from it; "
                "resume with --engine trl, or give another --output"
            )
    else:
        folder.require_free()
    task = task_of(recipe)
    settings = plan(recipe, folder, resume=resume)
    if task.is_graded_by_ktae:
        default_pool()  # without a grader verl would only warn about each rollout
    splits = {"train": task.train_rows(), "test": task.held_out_rows()}
    model = Path(policy_path(recipe))
    with folder.held() as lock:
        if not resume:
            folder.create(recipes.dump(recipe))
            make_folder(folder.tokenizer)
            for file in model.glob("tokenizer*.json"):
                shutil.copy(file, folder.tokenizer)
        elif folder.metrics.exists():
            # verl begins the file anew; the earlier one gets a number.
            earlier = len(list(folder.path.glob("metrics-*.jsonl")))
            folder.metrics.rename(folder.path / f"metrics-{earlier + 1}.jsonl")
        write(splits, folder.path / "data", data_source=task.data_source)
        environment = os.environ | _environment(folder)
        # -P: not from the run folder either, which holds whatever the run writes.
        program = [sys.executable, "-P", "-m", "verl.trainer.main_ppo", *verl.arguments(settings)]
        return subprocess.run(
            program, env=environment, cwd=folder.path, check=False, pass_fds=[lock]
        ).returncode


def _environment(folder: RunFolder) -> dict[str, str]:
    """Variables of the run: the plug-in beside other modules, and where metrics go."""
    # Not from the current folder: Ray's workers import from there before anything else, and it may
    # hold somebody's data.
    paths = map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    modules = ["ktae.trainers.verl", *filter(None, os.environ.get(MODULES, "").split(","))]
    return {
        MODULES: ",".join(dict.fromkeys(modules)),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path != os.getcwd()),
        "VERL_FILE_LOGGER_PATH": str(folder.metrics.absolute()),
        "TENSORBOARD_DIR": str((folder.path / "tensorboard").absolute()),
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
    }
