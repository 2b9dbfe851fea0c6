"""From a recipe to overrides of verl's configuration, checked against the installed verl's."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError, one_line
from ktae.estimators import to_section
from ktae.experiments.recipe import Recipe, dotted
from ktae.experiments.tasks import Task, task_of
from ktae.trainers import check_version
from ktae.trainers.verl import options
from ktae.trainers.verl.names import ESTIMATOR, MODES

LOSSES = {
    "grpo": "seq-mean-token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
}
"""The recipe's names for how token losses are averaged, and verl's."""

IGNORED = ("custom_reward_function.", "reward_model.")
"""Left in verl's configuration from an older one, and read by nobody."""

Overrides = dict[str, Any]
Tree = dict[str, Any]
"""Sections in sections; `+` is before the name of a new key."""


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
    task = task_of(recipe)
    settings = {
        **_algorithm(recipe, paths),
        "data": _data(recipe, paths),
        "actor_rollout_ref": {
            "model": _model(task, paths),
            "actor": _actor(recipe),
            "rollout": _rollout(recipe),
        },
        **_reward(task),
        "trainer": _trainer(recipe, paths, resume),
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


def _algorithm(recipe: Recipe, paths: Paths) -> Tree:
    settings: Tree = {
        "adv_estimator": ESTIMATOR if recipe.credit else "grpo",
        "norm_adv_by_std_in_grpo": recipe.algorithm.scale_by_std,
        "use_kl_in_reward": False,
    }
    if recipe.algorithm.resampling_rounds:
        # verl samples until the batch is full, however many rounds that takes.
        settings["filter_groups"] = {"enable": True, "metric": "acc"}
    if not recipe.credit:
        return {"algorithm": settings}
    section = to_section(recipe.credit)
    credit: Tree = {"estimator": section} if isinstance(section, str) else section
    if recipe.credit.needs_vocabulary:
        credit["tokenizer"] = paths.model
    if recipe.correct_above:
        credit["threshold"] = recipe.correct_above
    return {"algorithm": settings, "+algorithm.credit": credit}


def _data(recipe: Recipe, paths: Paths) -> Tree:
    return {
        "train_files": str(paths.train),
        "val_files": str(paths.test),
        "prompt_key": "prompt",
        "train_batch_size": recipe.rollout.prompts_per_step,
        "max_prompt_length": recipe.rollout.max_prompt_length,
        "max_response_length": recipe.rollout.max_response_length,
        "filter_overlong_prompts": False,
        "truncation": "left",
        "val_max_samples": recipe.logging.eval_problems,
        "seed": recipe.seed,
    }


def _model(task: Task, paths: Paths) -> Tree:
    rank = task.recipe.model.lora_rank
    return {
        "path": paths.model,
        "use_remove_padding": True,
        "enable_gradient_checkpointing": True,
        # on all linear layers, verl's default
        **({"lora_rank": rank, "lora_alpha": 2 * rank} if rank else {}),
        **({"custom_chat_template": task.chat_template} if task.chat_template else {}),
    }


def _actor(recipe: Recipe) -> Tree:
    prompts, minibatches = recipe.rollout.prompts_per_step, recipe.algorithm.minibatches
    if prompts % minibatches:
        raise InputError(
            f"algorithm.minibatches is {minibatches}; verl splits a step by prompts, so it "
            f"expects a divisor of rollout.prompts_per_step, which is {prompts}"
        )
    optimizer = recipe.optimizer
    actor = {
        "strategy": "fsdp2",
        "fsdp_config": {"strategy": "fsdp2", "seed": recipe.seed},
        "optim": {
            "lr": optimizer.learning_rate,
            "betas": [optimizer.beta1, optimizer.beta2],
            "weight_decay": optimizer.weight_decay,
            "lr_warmup_steps": optimizer.warmup_steps,
        },
        "ppo_mini_batch_size": prompts // minibatches,
        "ppo_epochs": recipe.algorithm.epochs,
        "use_dynamic_bsz": True,
        "ppo_max_token_len_per_gpu": recipe.verl.tokens_per_gpu,
        "data_loader_seed": recipe.seed,
        "loss_agg_mode": LOSSES[recipe.algorithm.loss],
        "clip_ratio": recipe.algorithm.clip_low,
        "clip_ratio_low": recipe.algorithm.clip_low,
        "clip_ratio_high": recipe.algorithm.clip_high,
        "use_kl_loss": recipe.algorithm.kl > 0,
        "kl_loss_coef": recipe.algorithm.kl,
        "kl_loss_type": "low_var_kl",  # as TRL
        "entropy_coeff": 0,
        "grad_clip": optimizer.max_grad_norm,
    }
    if recipe.algorithm.loss == "dr_grpo":  # left alone, verl divides by each batch's own width
        actor["loss_scale_factor"] = recipe.rollout.max_response_length
    return actor


def _rollout(recipe: Recipe) -> Tree:
    return {
        "name": recipe.verl.rollout_engine,
        "n": recipe.rollout.group_size,
        "temperature": recipe.rollout.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "seed": recipe.seed,
        "tensor_model_parallel_size": recipe.verl.tensor_parallel,
        "gpu_memory_utilization": recipe.verl.gpu_memory,
        "log_prob_use_dynamic_bsz": True,
        "log_prob_max_token_len_per_gpu": recipe.verl.tokens_per_gpu,
        "val_kwargs": {"do_sample": False, "temperature": 0, "n": 1},
    }


def _reward(task: Task) -> Tree:
    recipe = task.recipe
    longest, buffer = recipe.rollout.max_response_length, recipe.algorithm.overlong_buffer
    path, kwargs = task.verl_reward()
    settings: Tree = {"custom_reward_function": {"path": path, "name": "compute_score"}}
    shaping: Tree = {}
    if buffer:
        settings["reward_manager.name"] = "dapo"
        enabled = {"enable": True, "len": buffer, "penalty_factor": 1.0, "log": True}
        shaping = {"max_resp_len": longest, "overlong_buffer_cfg": enabled}
    return {
        "reward": settings,
        "+reward.custom_reward_function.reward_kwargs": kwargs,
        "+reward.reward_kwargs": shaping,
    }


def _trainer(recipe: Recipe, paths: Paths, resume: bool) -> Tree:
    mode = recipe.verl.mode
    return {
        "use_v1": True,
        "v1.trainer_mode": f"ktae_{mode}" if recipe.credit else mode,
        "nnodes": recipe.verl.nodes,
        "n_gpus_per_node": recipe.verl.gpus_per_node,
        "total_training_steps": recipe.steps,
        "total_epochs": recipe.steps,  # no epoch is shorter than a step
        "save_freq": recipe.logging.save_every,
        "max_actor_ckpt_to_keep": recipe.logging.keep_checkpoints,
        "test_freq": recipe.verl.validate_every,
        "val_before_train": True,
        "logger": list(dict.fromkeys(["console", "file", *recipe.logging.report_to])),
        "project_name": "ktae",
        "experiment_name": f"{recipe.name}-seed{recipe.seed}",
        "default_local_dir": str(paths.output / "checkpoints"),
        "rollout_data_dir": str(paths.output / "rollouts"),
        "resume_mode": "auto" if resume else "disable",
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
