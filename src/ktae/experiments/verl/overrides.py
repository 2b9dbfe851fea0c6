"""From a recipe to overrides of verl's configuration, checked against the installed verl's."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError, one_line
from ktae.estimators import to_section
from ktae.experiments.recipe import Recipe, dotted
from ktae.experiments.tasks import Task, task_of
from ktae.trainers import check_version
from ktae.trainers.verl import options
from ktae.trainers.verl.options import ESTIMATOR, MODES

LOSSES = {
    "grpo": "seq-mean-token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
}
"""The recipe's names for how token losses are averaged, and verl's."""

IGNORED = ("custom_reward_function.", "reward_model.")
"""Left in verl's configuration from an older one, and read by nobody."""

Overrides = dict[str, Any]

CONSTANT: Overrides = {
    "algorithm.use_kl_in_reward": False,
    "data.prompt_key": "prompt",
    "data.filter_overlong_prompts": False,
    "data.truncation": "left",
    "actor_rollout_ref.model.use_remove_padding": True,
    "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "actor_rollout_ref.actor.fsdp_config.strategy": "fsdp2",
    "actor_rollout_ref.actor.use_dynamic_bsz": True,
    "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",  # as TRL
    "actor_rollout_ref.actor.entropy_coeff": 0,
    "actor_rollout_ref.rollout.top_p": 1.0,
    "actor_rollout_ref.rollout.top_k": -1,
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
    "actor_rollout_ref.rollout.val_kwargs.do_sample": False,
    "actor_rollout_ref.rollout.val_kwargs.temperature": 0,
    "actor_rollout_ref.rollout.val_kwargs.n": 1,
    "reward.custom_reward_function.name": "compute_score",
    "trainer.use_v1": True,
    "trainer.val_before_train": True,
    "trainer.project_name": "ktae",
}
"""The same for every recipe."""

FROM_RECIPE = {
    "algorithm.norm_adv_by_std_in_grpo": "algorithm.scale_by_std",
    "data.train_batch_size": "rollout.prompts_per_step",
    "data.max_prompt_length": "rollout.max_prompt_length",
    "data.max_response_length": "rollout.max_response_length",
    "data.val_max_samples": "logging.eval_problems",
    "data.seed": "seed",
    "actor_rollout_ref.actor.fsdp_config.seed": "seed",
    "actor_rollout_ref.actor.data_loader_seed": "seed",
    "actor_rollout_ref.actor.optim.lr": "optimizer.learning_rate",
    "actor_rollout_ref.actor.optim.weight_decay": "optimizer.weight_decay",
    "actor_rollout_ref.actor.optim.lr_warmup_steps": "optimizer.warmup_steps",
    "actor_rollout_ref.actor.grad_clip": "optimizer.max_grad_norm",
    "actor_rollout_ref.actor.ppo_epochs": "algorithm.epochs",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "verl.tokens_per_gpu",
    "actor_rollout_ref.actor.clip_ratio": "algorithm.clip_low",
    "actor_rollout_ref.actor.clip_ratio_low": "algorithm.clip_low",
    "actor_rollout_ref.actor.clip_ratio_high": "algorithm.clip_high",
    "actor_rollout_ref.actor.kl_loss_coef": "algorithm.kl",
    "actor_rollout_ref.rollout.name": "verl.rollout_engine",
    "actor_rollout_ref.rollout.n": "rollout.group_size",
    "actor_rollout_ref.rollout.temperature": "rollout.temperature",
    "actor_rollout_ref.rollout.seed": "seed",
    "actor_rollout_ref.rollout.tensor_model_parallel_size": "verl.tensor_parallel",
    "actor_rollout_ref.rollout.gpu_memory_utilization": "verl.gpu_memory",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": "verl.tokens_per_gpu",
    "trainer.nnodes": "verl.nodes",
    "trainer.n_gpus_per_node": "verl.gpus_per_node",
    "trainer.total_training_steps": "steps",
    "trainer.total_epochs": "steps",  # no epoch is shorter than a step
    "trainer.save_freq": "logging.save_every",
    "trainer.max_actor_ckpt_to_keep": "logging.keep_checkpoints",
    "trainer.test_freq": "verl.validate_every",
}
"""verl's key, and the recipe's key that it has the value of."""


class Paths(NamedTuple):
    """Where a run finds and leaves things."""

    model: str
    """A folder or a hub name."""
    train: Path
    """Parquet."""
    test: Path
    """Parquet."""
    output: Path
    """The run folder."""


def overrides(
    recipe: Recipe,
    paths: Paths,
    *,
    resume: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Overrides:
    """verl's keys (with Hydra's `+` where a key is new) and values for a recipe.

    Args:
        recipe: what to run.
        paths: where it finds and leaves things.
        resume: continue from the last checkpoint.
        environment: variables for every process of the run, on whatever node Ray starts it; those
            of a cluster that is up already inherit nothing from the process that asks it for work.

    Raises:
        InputError: the recipe asks for something that verl cannot do, or sets a key that verl
            would ignore.
    """
    # The default is let through: a run folder's recipe spells it out.
    if recipe.algorithm.patience != type(recipe.algorithm)().patience:
        raise InputError(
            f"algorithm.patience is {recipe.algorithm.patience}, and verl cannot stop early: it "
            f"runs all {recipe.steps} steps, whether or not there is something to learn; leave "
            "algorithm.patience out, or train with --engine trl"
        )
    settings = {
        **CONSTANT,
        **{key: attrgetter(name)(recipe) for key, name in FROM_RECIPE.items()},
        **_algorithm(recipe, paths),
        **_task(task_of(recipe)),
        **_run(recipe, paths, resume),
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


def _algorithm(recipe: Recipe, paths: Paths) -> Overrides:
    algorithm, prompts = recipe.algorithm, recipe.rollout.prompts_per_step
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
    if algorithm.loss == "dr_grpo":  # left alone, verl divides by each batch's own width
        actor["loss_scale_factor"] = recipe.rollout.max_response_length
    settings: Overrides = {
        "actor_rollout_ref.actor": actor,
        "algorithm.adv_estimator": ESTIMATOR if recipe.credit else "grpo",
    }
    if algorithm.resampling_rounds:
        # verl samples until the batch is full, however many rounds that takes.
        settings["algorithm.filter_groups"] = {"enable": True, "metric": "acc"}
    if recipe.credit:
        section = to_section(recipe.credit)
        credit: Overrides = {"estimator": section} if isinstance(section, str) else section
        if recipe.credit.needs_vocabulary:
            credit["tokenizer"] = paths.model
        if recipe.correct_above:
            credit["threshold"] = recipe.correct_above
        settings["+algorithm.credit"] = credit
    return settings


def _task(task: Task) -> Overrides:
    recipe, rank = task.recipe, task.recipe.model.lora_rank
    path, kwargs = task.verl_reward()
    settings: Overrides = {
        "reward.custom_reward_function.path": path,
        "+reward.custom_reward_function.reward_kwargs": kwargs,
    }
    if rank:  # on all linear layers, verl's default
        settings["actor_rollout_ref.model"] = {"lora_rank": rank, "lora_alpha": 2 * rank}
    if task.chat_template:
        settings["actor_rollout_ref.model.custom_chat_template"] = task.chat_template
    if buffer := recipe.algorithm.overlong_buffer:
        settings["reward.reward_manager.name"] = "dapo"
        shaping = {"enable": True, "len": buffer, "penalty_factor": 1.0, "log": True}
        settings["+reward.reward_kwargs"] = {
            "max_resp_len": recipe.rollout.max_response_length,
            "overlong_buffer_cfg": shaping,
        }
    return settings


def _run(recipe: Recipe, paths: Paths, resume: bool) -> Overrides:
    mode = recipe.verl.mode
    return {
        "data.train_files": str(paths.train),
        "data.val_files": str(paths.test),
        "actor_rollout_ref.model.path": paths.model,
        "trainer.v1.trainer_mode": f"ktae_{mode}" if recipe.credit else mode,
        "trainer.logger": list(dict.fromkeys(["console", "file", *recipe.logging.report_to])),
        "trainer.experiment_name": f"{recipe.name}-seed{recipe.seed}",
        "trainer.default_local_dir": str(paths.output / "checkpoints"),
        "trainer.rollout_data_dir": str(paths.output / "rollouts"),
        "trainer.resume_mode": "auto" if resume else "disable",
    }


def arguments(settings: Overrides) -> list[str]:
    """The overrides as Hydra reads them from a command line: each value comes out as it went in,
    but that OmegaConf takes `${...}` in text for another key's value, and `???` for none."""
    return [f"{key}={_hydra(value)}" for key, value in settings.items()]


WORD = re.compile(r"(?!(?i:true|false|null|nan|inf)$)[A-Za-z_/][A-Za-z0-9_./:@%+-]*")
"""Hydra's unquoted text that is no number, and that a shell leaves alone, too."""


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
    """verl's whole configuration with the overrides applied.

    Raises:
        InputError: verl is absent or too old; Hydra refuses an override, such as a key that verl
            does not have; or the settings of `algorithm.credit` do not fit the rest.
    """
    check_version("verl")
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    spec = importlib.util.find_spec("verl")
    assert spec is not None and spec.submodule_search_locations is not None
    folder = Path(next(iter(spec.submodule_search_locations)), "trainer", "config")
    try:
        with initialize_config_dir(str(folder), version_base=None):
            config = hydra_compose("ppo_trainer", overrides=arguments(settings))
    except HydraException as error:
        raise InputError(f"verl refuses an override: {one_line(error, 2000)}") from None
    if config.algorithm.adv_estimator == ESTIMATOR:
        has_token_ids = config.trainer.use_v1 and config.trainer.v1.trainer_mode in MODES
        options.checked(config, has_token_ids=has_token_ids)
    return config
