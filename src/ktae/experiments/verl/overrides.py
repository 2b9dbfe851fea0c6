"""From a recipe to overrides of verl's configuration, checked against the installed verl's."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktae.errors import InputError, passed_on
from ktae.estimators import to_section
from ktae.experiments.recipe import Recipe, dotted, settings_of
from ktae.experiments.tasks import task_of
from ktae.trainers import check_version
from ktae.trainers.verl import options
from ktae.trainers.verl.options import ESTIMATOR, MODES, REWARD

LOSSES = {
    "grpo": "seq-mean-token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
}
"""The recipe's names for how token losses are averaged, and verl's."""

IGNORED = ("custom_reward_function.", "reward_model.")
"""Keys that verl's configuration has from an older version and that nothing reads."""

OWN_REWARD = "pkg://ktae.experiments.verl.reward"
"""verl's path of the reward function for tasks that ktae's grader does not grade."""

Overrides = dict[str, Any]


def problem_files(folder: Path) -> dict[str, Path]:
    """The files of problems in a run folder: `train` and `test`."""
    return {split: folder / "data" / "verl" / f"{split}.parquet" for split in ("train", "test")}


def overrides(
    recipe: Recipe,
    model: str,
    folder: Path,
    *,
    resume: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Overrides:
    """verl's keys (with Hydra's `+` where a key is new) and values for a recipe and a run folder.

    `environment` holds variables for the run's processes on every node of a Ray cluster. What verl
    cannot do or would ignore is an InputError.
    """
    # The default passes: the recipe in a run folder spells it out.
    if recipe.algorithm.patience != type(recipe.algorithm)().patience:
        raise InputError(
            f"algorithm.patience is {recipe.algorithm.patience}, and verl cannot stop early: it "
            f"runs all {recipe.steps} steps, whether or not there is something to learn; leave "
            "algorithm.patience out, or train with --engine trl"
        )
    mode, files = recipe.verl.mode, problem_files(folder)
    settings = {
        **settings_of("verl", recipe),
        **_sections(recipe, model, folder),
        "data.train_files": str(files["train"]),
        "data.val_files": str(files["test"]),
        "actor_rollout_ref.model.path": model,
        "trainer.v1.trainer_mode": f"ktae_{mode}" if recipe.credit else mode,
        "trainer.logger": list(dict.fromkeys(["console", "file", *recipe.logging.report_to])),
        "trainer.experiment_name": f"{recipe.name}-seed{recipe.seed}",
        "trainer.default_local_dir": str(folder / "checkpoints"),
        "trainer.rollout_data_dir": str(folder / "rollouts"),
        "trainer.resume_mode": "auto" if resume else "disable",
        "+ray_kwargs.ray_init.runtime_env.env_vars": environment or {},
    }
    of_recipe = dotted(recipe.verl.overrides)
    for key in of_recipe:
        if key.lstrip("+").startswith(IGNORED):
            raise InputError(f"verl.overrides has {key}, which verl ignores; use reward.{key}")
    # `+key` and `key` are the same setting: what the recipe gives replaces ours.
    replaced = {key.lstrip("+") for key in of_recipe}
    ours = {key: v for key, v in dotted(settings).items() if key.lstrip("+") not in replaced}
    return ours | of_recipe


def _sections(recipe: Recipe, model: str, folder: Path) -> Overrides:
    """What follows from several settings of a recipe together."""
    algorithm, prompts = recipe.algorithm, recipe.rollout.prompts_per_step
    task, longest = task_of(recipe), recipe.rollout.max_response_length
    if prompts % algorithm.minibatches:
        raise InputError(
            f"algorithm.minibatches is {algorithm.minibatches}; verl splits a step by prompts, so "
            f"it expects a divisor of rollout.prompts_per_step, which is {prompts}"
        )
    actor: Overrides = {
        "ppo_mini_batch_size": prompts // algorithm.minibatches,
        "optim.betas": [recipe.optimizer.beta1, recipe.optimizer.beta2],
        "loss_agg_mode": LOSSES[algorithm.loss],
        "use_kl_loss": algorithm.kl > 0,
    }
    if algorithm.loss == "dr_grpo":  # by default verl divides by each batch's own width
        actor["loss_scale_factor"] = longest
    settings: Overrides = {
        "actor_rollout_ref.actor": actor,
        "algorithm.adv_estimator": ESTIMATOR if recipe.credit else "grpo",
        "reward.custom_reward_function.path": REWARD if task.is_graded_by_ktae else OWN_REWARD,
    }
    if not task.is_graded_by_ktae:
        key = "+reward.custom_reward_function.reward_kwargs"
        settings[key] = {"recipe": str(folder / "recipe.yaml")}
    if rank := recipe.model.lora_rank:  # on all linear layers, verl's default
        settings["actor_rollout_ref.model"] = {"lora_rank": rank, "lora_alpha": 2 * rank}
    if task.chat_template:
        settings["actor_rollout_ref.model.custom_chat_template"] = task.chat_template
    if buffer := algorithm.overlong_buffer:
        settings["reward.reward_manager.name"] = "dapo"
        shaping = {"enable": True, "len": buffer, "penalty_factor": 1.0, "log": True}
        kwargs = {"max_resp_len": longest, "overlong_buffer_cfg": shaping}
        settings["+reward.reward_kwargs"] = kwargs
    if algorithm.resampling_rounds:
        # verl samples until the batch is full, however many rounds that takes.
        settings["algorithm.filter_groups"] = {"enable": True, "metric": "acc"}
    if recipe.credit:
        section = to_section(recipe.credit)
        credit: Overrides = {"estimator": section} if isinstance(section, str) else section
        if recipe.credit.needs_vocabulary:
            credit["tokenizer"] = model
        if recipe.correct_above:
            credit["threshold"] = recipe.correct_above
        settings["+algorithm.credit"] = credit
    return settings


def arguments(settings: Overrides) -> list[str]:
    """The overrides as Hydra reads them from a command line: each value comes out as it went in,
    except that OmegaConf takes `${...}` in text for another key's value, and `???` for none."""
    return [f"{key}={_hydra(value)}" for key, value in settings.items()]


WORD = re.compile(r"(?!(?i:true|false|null|nan|inf)$)[A-Za-z_/][A-Za-z0-9_./:@%+-]*")
"""Text that neither Hydra nor a shell needs in quotes."""


def _hydra(value: Any) -> str:
    """A value in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_hydra, value)) + "]"
    if isinstance(value, dict):  # whose keys take no quotes
        return "{" + ",".join(f"{name}:{_hydra(item)}" for name, item in value.items()) + "}"
    if not isinstance(value, str) or WORD.fullmatch(value):
        return str(value)
    # Within double quotes a backslash stands for itself unless a quote comes after it.
    escaped = re.sub(r'(\\*)("|\Z)', lambda m: 2 * m[1] + m[2].replace('"', '\\"'), value)
    return f'"{escaped}"'


def command(settings: Overrides, environment: dict[str, str]) -> str:
    """A shell command that starts the run, one override a line."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    program = " ".join([*variables, "python -P -m verl.trainer.main_ppo"])
    return " \\\n  ".join([program, *map(shlex.quote, arguments(settings))])


def compose(settings: Overrides) -> Any:
    """verl's whole configuration with the overrides applied; an InputError for a key that it does
    not have, or settings of `algorithm.credit` that do not fit the rest."""
    check_version("verl")
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    spec = importlib.util.find_spec("verl")
    assert spec is not None and spec.submodule_search_locations is not None
    folder = Path(next(iter(spec.submodule_search_locations)), "trainer", "config")
    with (
        passed_on("verl refuses an override", HydraException),
        initialize_config_dir(str(folder), version_base=None),
    ):
        config = hydra_compose("ppo_trainer", overrides=arguments(settings))
    if config.algorithm.adv_estimator == ESTIMATOR:
        has_token_ids = config.trainer.use_v1 and config.trainer.v1.trainer_mode in MODES
        options.checked(config, has_token_ids=has_token_ids)
    return config
