"""From a recipe to overrides of verl's configuration."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktae.errors import InputError
from ktae.estimators import to_section
from ktae.recipe import Recipe
from ktae.trainers.verl.names import ESTIMATOR, REWARD

LOSSES = {
    "grpo": "seq-mean-token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
}
"""The recipe's names for how token losses are averaged, and verl's."""

IGNORED = ("custom_reward_function.", "reward_model.")
"""Left in verl's configuration from an older one, and read by nobody."""

TRACKERS = (
    *("clearml", "mlflow", "rl_insight", "swanlab", "tensorboard", "trackio", "vemlp_wandb"),
    *("wandb", "console", "file"),
)
"""What verl 0.9 can report to; it would refuse others only after the models are loaded."""

PLAIN_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
"""For the demo, whose prompts are complete as they are."""

Overrides = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Paths:
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
    settings = (
        _algorithm(recipe, paths)
        | _data_and_model(recipe, paths)
        | _actor(recipe)
        | _rollout_and_reward(recipe)
        | _trainer(recipe, paths, resume)
    )
    for name, value in (environment or {}).items():
        settings[f"+ray_kwargs.ray_init.runtime_env.env_vars.{name}"] = value
    every = with_sections(recipe.verl.overrides)  # given dotted or as sections
    of_recipe = {k: value for k, value in every if not (value and isinstance(value, dict))}
    for key in of_recipe:
        if key.lstrip("+").startswith(IGNORED):
            raise InputError(f"verl.overrides has {key}, which verl ignores; use reward.{key}")
    # `+key` and `key` are the same setting: what the recipe gives replaces ours.
    replaced = {key.lstrip("+") for key in of_recipe}
    ours = {key: value for key, value in settings.items() if key.lstrip("+") not in replaced}
    return ours | of_recipe


def with_sections(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, the sections' own among them."""
    for key, value in content.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from with_sections(value, f"{prefix}{key}.")


def _algorithm(recipe: Recipe, paths: Paths) -> Overrides:
    settings: Overrides = {
        "algorithm.adv_estimator": ESTIMATOR if recipe.credit else "grpo",
        "algorithm.norm_adv_by_std_in_grpo": recipe.algorithm.scale_by_std,
        "algorithm.use_kl_in_reward": False,
    }
    if recipe.credit:
        section = to_section(recipe.credit)
        chosen: dict[str, Any] = {"estimator": section} if isinstance(section, str) else section
        if recipe.credit.needs_vocabulary:
            chosen["tokenizer"] = paths.model
        if recipe.correct_above:
            chosen["threshold"] = recipe.correct_above
        settings |= {f"+algorithm.credit.{name}": value for name, value in chosen.items()}
    if recipe.algorithm.resampling_rounds:
        # verl samples until the batch is full, however many rounds that takes.
        settings |= {
            "algorithm.filter_groups.enable": True,
            "algorithm.filter_groups.metric": "acc",
        }
    return settings


def _data_and_model(recipe: Recipe, paths: Paths) -> Overrides:
    settings: Overrides = {
        "data.train_files": str(paths.train),
        "data.val_files": str(paths.test),
        "data.prompt_key": "prompt",
        "data.train_batch_size": recipe.rollout.prompts_per_step,
        "data.max_prompt_length": recipe.rollout.max_prompt_length,
        "data.max_response_length": recipe.rollout.max_response_length,
        "data.filter_overlong_prompts": False,
        "data.truncation": "left",
        "data.val_max_samples": recipe.logging.eval_problems,
        "data.seed": recipe.seed,
        "actor_rollout_ref.model.path": paths.model,
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    }
    if recipe.model.lora_rank:  # on all linear layers, verl's default
        settings |= {
            "actor_rollout_ref.model.lora_rank": recipe.model.lora_rank,
            "actor_rollout_ref.model.lora_alpha": 2 * recipe.model.lora_rank,
        }
    if recipe.task == "demo":
        settings["actor_rollout_ref.model.custom_chat_template"] = PLAIN_TEMPLATE
    return settings


def _actor(recipe: Recipe) -> Overrides:
    prompts, minibatches = recipe.rollout.prompts_per_step, recipe.algorithm.minibatches
    if prompts % minibatches:
        raise InputError(
            f"algorithm.minibatches is {minibatches}; verl splits a step by prompts, so it "
            f"expects a divisor of rollout.prompts_per_step, which is {prompts}"
        )
    optimizer = recipe.optimizer
    actor = {
        "strategy": "fsdp2",
        "fsdp_config.strategy": "fsdp2",
        "fsdp_config.seed": recipe.seed,
        "optim.lr": optimizer.learning_rate,
        "optim.betas": [optimizer.beta1, optimizer.beta2],
        "optim.weight_decay": optimizer.weight_decay,
        "optim.lr_warmup_steps": optimizer.warmup_steps,
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
    return {f"actor_rollout_ref.actor.{name}": value for name, value in actor.items()}


def _rollout_and_reward(recipe: Recipe) -> Overrides:
    rollout: Overrides = {
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
        "val_kwargs.do_sample": False,
        "val_kwargs.temperature": 0,
        "val_kwargs.n": 1,
    }
    settings = {f"actor_rollout_ref.rollout.{name}": value for name, value in rollout.items()}
    settings["reward.custom_reward_function.path"] = REWARD
    settings["reward.custom_reward_function.name"] = "compute_score"
    longest = recipe.rollout.max_response_length
    kwargs = "+reward.custom_reward_function.reward_kwargs"
    if recipe.task == "demo":
        settings[f"{kwargs}.max_response_length"] = longest
    if recipe.wants_scores:
        settings[f"{kwargs}.graded"] = True
    if recipe.algorithm.overlong_buffer:
        buffer = "+reward.reward_kwargs.overlong_buffer_cfg"
        settings |= {
            "reward.reward_manager.name": "dapo",
            "+reward.reward_kwargs.max_resp_len": longest,
            f"{buffer}.enable": True,
            f"{buffer}.len": recipe.algorithm.overlong_buffer,
            f"{buffer}.penalty_factor": 1.0,
            f"{buffer}.log": True,
        }
    return settings


def _trainer(recipe: Recipe, paths: Paths, resume: bool) -> Overrides:
    for name in recipe.logging.report_to:
        if name not in TRACKERS:
            raise InputError(
                f"logging.report_to has {name!r}, which verl cannot report to; "
                f"expected some of {', '.join(TRACKERS)}"
            )
    mode = recipe.verl.mode
    return {
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": f"ktae_{mode}" if recipe.credit else mode,
        "trainer.nnodes": recipe.verl.nodes,
        "trainer.n_gpus_per_node": recipe.verl.gpus_per_node,
        "trainer.total_training_steps": recipe.steps,
        "trainer.total_epochs": recipe.steps,  # no epoch is shorter than a step
        "trainer.save_freq": recipe.logging.save_every,
        "trainer.max_actor_ckpt_to_keep": recipe.logging.keep_checkpoints,
        "trainer.test_freq": recipe.verl.validate_every,
        "trainer.val_before_train": True,
        "trainer.logger": list(dict.fromkeys(["console", "file", *recipe.logging.report_to])),
        "trainer.project_name": "ktae",
        "trainer.experiment_name": f"{recipe.name}-seed{recipe.seed}",
        "trainer.default_local_dir": str(paths.output / "checkpoints"),
        "trainer.rollout_data_dir": str(paths.output / "rollouts"),
        "trainer.resume_mode": "auto" if resume else "disable",
    }


def arguments(settings: Overrides) -> list[str]:
    """The overrides as Hydra reads them from a command line: each value comes out as it went in.

    Raises:
        InputError: a key is one that Hydra's grammar cannot spell, or a value is one that OmegaConf
            would replace by another.
    """
    for key in settings:
        if not KEY.fullmatch(key):
            raise InputError(
                f"verl.overrides has the key {key!r:.60}; expected ASCII letters, digits, dots, _ "
                "and -, and a + in front where the key is new"
            )
    return [f"{key}={_hydra(value, key)}" for key, value in settings.items()]


KEY = re.compile(r"\+{0,2}[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Hydra gives a meaning of their own to `=`, `~`, `@`, `/` and `,` in a key."""


WORD = re.compile(r"[A-Za-z0-9_./:@%+-]+")
"""Of Hydra's unquoted text only what a shell leaves alone, too."""


def _hydra(value: Any, key: str) -> str:
    """A value in Hydra's grammar; `key` is what errors name.

    `${...}` is refused, an environment variable or another key's value to OmegaConf, and `???`, no
    value at all. An escape would not do: verl resolves its configuration more than once, and each
    time takes one escape away.
    """
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_hydra(item, key) for item in value) + "]"
    if isinstance(value, dict):
        for name in value:  # Hydra takes no quotes around the keys of a mapping
            if isinstance(name, str) and (":" in name or not _is_word(name)):
                raise InputError(
                    f"verl.overrides has a mapping in a list with the key {name!r}, which Hydra "
                    "cannot read; expected ASCII letters, digits and _./@%+-, and text that is not "
                    "a number, true, false or null"
                )
        items = [f"{_hydra(name, key)}:{_hydra(item, key)}" for name, item in value.items()]
        return "{" + ",".join(items) + "}"
    if not isinstance(value, str):
        return str(value)
    if "${" in value or value == "???":
        raise InputError(
            f"{key} is {value!r:.60}, which OmegaConf would replace by another value; expected "
            "text without ${, and not ???: write the value itself"
        )
    if _is_word(value):
        return value
    # Within double quotes a backslash stands for itself unless a quote comes after it.
    escaped = re.sub(r'(\\*)("|\Z)', lambda m: 2 * m[1] + m[2].replace('"', '\\"'), value)
    return f'"{escaped}"'


def _is_word(text: str) -> bool:
    """Whether Hydra takes the text as it is, and for text."""
    with contextlib.suppress(ValueError):
        float(text)  # all that Hydra takes for a number, inf and nan too, is one here
        return False
    return bool(WORD.fullmatch(text)) and text.lower() not in ("true", "false", "null")


def command(settings: Overrides, environment: dict[str, str]) -> str:
    """A shell command that starts the run, one override a line."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    lines = [
        " ".join([*variables, "python -P -m verl.trainer.main_ppo"]),
        *map(shlex.quote, arguments(settings)),
    ]
    return " \\\n  ".join(lines)
