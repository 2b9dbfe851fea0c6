"""One experiment as a typed file: what to train, on what, with which method."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from ktae.errors import InputError
from ktae.estimators import Estimator, from_section, to_section
from ktae.estimators.transforms import require_scale
from ktae.experiments.templates import INSTRUCTION
from ktae.files.typed import NUMBERS, parse_yaml, read_mapping

SHORT = {"credit": "estimator", "task": "source"}
"""Sections that may be a name alone, and the key that the name stands for."""

JUST_BELOW_ONE = 1 - 2**-20
"""The largest reward below 1 that float32 tells from 1."""

Positive = Annotated[int, Field(strict=True, gt=0)]
NotNegative = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, gt=0, lt=1)]
NotNegativeFloat = Annotated[float, Field(strict=True, ge=0)]
PositiveFloat = Annotated[float, Field(strict=True, gt=0)]


class Section(pydantic.BaseModel):
    """Part of a typed file: frozen, no unknown keys, finite numbers."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,  # estimators are values of their own
    )


class Model(Section):
    """The policy to train."""

    path: str = "demo"
    """`demo` (the embedded base model, pretrained on first use), a folder, or a hub name."""
    lora_rank: NotNegative = 0
    """Train a LoRA adapter of this rank on all linear layers; 0 trains the whole model."""


class Demo(Section):
    """The embedded task: small sums."""

    source: Literal["demo"] = "demo"


class ReasoningGym(Section):
    """A task of reasoning-gym (`ktae.experiments.tasks.gym`)."""

    source: Literal["reasoning-gym"]
    name: str
    """A task's name, such as `chain_sum`."""
    settings: dict[str, Any] = Field(default={})
    """Settings of that task, such as `{min_terms: 2, max_terms: 2}`."""
    instruction: str | None = None
    """The system message; null: the model's own."""
    answer: Literal["last-number", "stated", "whole"] = "last-number"
    """The part of a response that is scored: its stated answer or else its last number, only its
    stated answer, or all of it."""


class Problems(Section):
    """Mathematics with reference answers, which ktae's grader compares."""

    source: Literal["gsm8k", "math12k", "math-l3-5", "file"]
    """The name of a data set of the hub, or `file`."""
    train: str | None = None
    """A file of problems to train on instead of the hub's: JSON lines (also .gz) or Parquet."""
    test: str | None = None
    """The same, for held-out problems."""
    instruction: str | None = INSTRUCTION
    """The system message; null: the model's own."""

    @pydantic.model_validator(mode="after")
    def _has_files(self) -> Problems:
        if self.source == "file" and (self.train is None or self.test is None):
            raise ValueError("source is file; expected train and test, each a file of problems")
        return self


Task = Annotated[
    Demo | ReasoningGym | Problems,
    Field(discriminator="source"),
    BeforeValidator(lambda task: {"source": task} if isinstance(task, str) else task),
]


class Rollout(Section):
    """How rollouts are sampled."""

    prompts_per_step: Positive = 8
    """Prompts, and so groups, in one training step."""
    group_size: Annotated[int, Field(strict=True, ge=2)] = 16
    """Rollouts per prompt (the paper's G)."""
    max_response_length: Positive = 64
    """Longest response, in tokens."""
    max_prompt_length: Positive = 1024
    """Longest prompt, in tokens; verl cuts longer ones on the left, TRL takes them whole."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature."""


class Algorithm(Section):
    """The policy-gradient method underneath."""

    loss: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """How token losses are averaged: `grpo` within each rollout first, `dapo` over all tokens of
    the batch, `dr_grpo` by a constant."""
    scale_by_std: bool = True
    """Divide the rollout advantage by the group's standard deviation."""
    clip_low: Share = 0.2
    """Lower clip range of the probability ratio."""
    clip_high: PositiveFloat = 0.2
    """Upper clip range; DAPO's clip-higher sets it above `clip_low`."""
    kl: NotNegativeFloat = 0.0
    """Coefficient of the KL penalty (`low_var_kl`) to the base model; 0 switches it off."""
    minibatches: Positive = 2
    """Optimizer steps that one training step's rollouts are split into."""
    epochs: Positive = 1
    """Passes over each training step's rollouts."""
    overlong_buffer: NotNegative = 0
    """DAPO's overlong shaping: a penalty that grows from 0 to 1 over this many tokens before
    `rollout.max_response_length`. It changes the reward, never correctness."""
    resampling_rounds: NotNegative = 0
    """DAPO's dynamic sampling: at most this many extra batches to replace groups of equal rewards;
    those that remain are dropped from the loss. 0 switches it off."""
    patience: Positive = 50
    """Stop after this many training steps in a row in which no group had unequal rewards. Only for
    TRL; verl cannot stop early and refuses any other number than the default."""


Credit = Annotated[
    Estimator,
    BeforeValidator(lambda x: from_section(x) if isinstance(x, str | dict) else x),
    PlainSerializer(to_section, return_type=str | dict[str, Any]),
]


class Optimizer(Section):
    """AdamW."""

    learning_rate: PositiveFloat = 1e-6
    """Peak learning rate."""
    beta1: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.9
    """Decay of the first moment."""
    beta2: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.999
    """Decay of the second moment."""
    weight_decay: NotNegativeFloat = 0.0
    """Decoupled weight decay."""
    max_grad_norm: PositiveFloat = 1.0
    """Gradient clipping."""
    warmup_steps: NotNegative = 0
    """Training steps of linear warm-up; constant afterwards."""


class Verl(Section):
    """Settings for `--engine verl`: the cluster, and how the work is laid out on it."""

    mode: Literal["sync", "colocate_async", "separate_async"] = "sync"
    """verl's trainer mode."""
    nodes: Positive = 1
    """Machines that train."""
    gpus_per_node: Positive = 8
    """GPUs on each machine."""
    rollout_engine: str = "vllm"
    """The engine that samples rollouts: `vllm`, `sglang` or `trtllm`."""
    tensor_parallel: Positive = 1
    """GPUs that one copy of the rollout engine spans."""
    gpu_memory: Share = 0.6
    """Share of a GPU's memory for the rollout engine."""
    tokens_per_gpu: Positive = 16384
    """Tokens in one forward or backward pass on a GPU."""
    validate_every: Positive = 5
    """Training steps between validations."""
    overrides: dict[str, Any] = Field(default={})
    """Other keys of verl's configuration, dotted or as sections, with their values."""


class Trl(Section):
    """Settings for `--engine trl`."""

    forward_rollouts: Positive | None = None
    """Rollouts in one forward and backward pass of a process; null takes a whole minibatch."""
    top_entropy: Annotated[float, Field(strict=True, gt=0, le=1)] = 1.0
    """Train on this share of the tokens, those where the policy's entropy is highest: at 0.2 the
    80/20 baseline (arXiv:2506.01939), with or without token credit."""
    entropy_coef: Annotated[float, Field(strict=True)] = 0.0
    """Weight of the policy's mean entropy in what is maximised: above 0 a bonus, below 0 a
    penalty."""
    vllm: bool = False
    """Sample with vLLM, on the GPUs that train."""
    vllm_memory: Share = 0.3
    """Share of a GPU's memory for vLLM."""


class Logging(Section):
    """What training writes, and how often."""

    save_every: Positive = 20
    """Training steps between checkpoints."""
    keep_checkpoints: Positive = 2
    """Checkpoints kept."""
    eval_problems: Annotated[int, Field(strict=True, gt=0, le=1024)] = 512
    """Held-out problems for the accuracy before and after."""
    report_to: tuple[str, ...] = ()
    """Trackers beside the run folder's metrics, such as `tensorboard`, `trackio`, `wandb`."""


def _absolute(function: str) -> str:
    """With the whole path of a file: workers and later runs may be in another folder."""
    file, _, name = function.rpartition(":")
    is_file = file.endswith(".py")
    return f"{Path(file).expanduser().absolute()}:{name}" if is_file else function


class Recipe(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
    """The run's name: letters, digits, `.`, `_`, `-`, at most 200 characters."""
    task: Task = Demo()
    """Where prompts, answers and the reward come from: `demo`, or a mapping whose `source` is
    `reasoning-gym`, `gsm8k`, `math12k`, `math-l3-5` or `file`."""
    reward: Annotated[str, Field(pattern=r"^[^:].*:\w+$"), AfterValidator(_absolute)] | None = None
    """A reward of your own instead of the task's grader: `mine.py:function` or `module:function`.
    It gets a response and its reference answer as texts, and returns a number, or None if unknown.
    Above 0 is correct; with an estimator of graded rewards, only 1 is."""
    seed: NotNegative = 0
    """Seed of sampling and data order."""
    steps: Positive
    """Training steps: batches of rollouts that are sampled."""
    model: Model = Model()
    rollout: Rollout = Rollout()
    algorithm: Algorithm = Algorithm()
    credit: Credit | None = None
    """The estimator of token credit: the name of a preset, such as `calibrated`, or a mapping with
    `estimator`, its settings and `transforms`; null trains on the rollout advantages alone."""
    optimizer: Optimizer = Optimizer()
    trl: Trl = Trl()
    verl: Verl = Verl()
    logging: Logging = Logging()

    @property
    def correct_above(self) -> float:
        """A rollout is correct if its reward is above this; among scores only 1 is."""
        takes_scores = self.credit is not None and self.credit.takes_scores
        return JUST_BELOW_ONE if takes_scores and self.reward is not None else 0.0

    @pydantic.model_validator(mode="after")
    def _sections_fit(self) -> Recipe:
        """Check what no section can check alone."""
        rollouts = self.rollout.prompts_per_step * self.rollout.group_size
        if rollouts % self.algorithm.minibatches:
            raise ValueError(
                f"algorithm.minibatches is {self.algorithm.minibatches}; expected a divisor of the "
                f"{rollouts} rollouts of a step (rollout.prompts_per_step × rollout.group_size)"
            )
        scaled = self.algorithm.scale_by_std
        if self.credit is not None:
            require_scale(self.credit, scaled, f"algorithm.scale_by_std is {scaled}")
        longest = self.rollout.max_response_length
        if self.algorithm.overlong_buffer >= longest:
            raise ValueError(
                f"algorithm.overlong_buffer is {self.algorithm.overlong_buffer}; expected less "
                f"than rollout.max_response_length, which is {longest}"
            )
        return self


def load(path: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe from YAML and apply `key=value` overrides (dotted keys, YAML values).

    Raises:
        InputError: no such file, broken YAML, an unknown key (the nearest known one is named), a
            value out of range.
    """
    content = read_mapping(Path(path), "recipe")
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise InputError(f"override {override!r} has no value; expected key=value")
        value = parse_yaml(text, f"override {override!r}")
        *parents, last = key.split(".")
        section = content
        for parent in parents:
            present = section.get(parent)
            if parent in SHORT and isinstance(present, str):  # a name, to which a key is added
                section[parent] = {SHORT[parent]: present}
            elif not isinstance(present, dict):  # absent, null, or a wrong value
                section[parent] = {}
            section = section[parent]
        section[last] = value
    try:
        return Recipe.model_validate(content)
    except pydantic.ValidationError as error:
        problems = [
            # A part in brackets is the form of a value that has several, and no key.
            f"{'.'.join(str(y) for y in x['loc'] if not str(y).startswith('('))}: {x['msg']}"
            for x in error.errors()
        ]
        raise InputError(f"recipe {path}: {'; '.join(problems)}") from None


class _Dumper(yaml.SafeDumper):
    """Writes what `parse_yaml` reads as it was."""


_Dumper.add_implicit_resolver(*NUMBERS)


def dump_yaml(content: Any) -> str:
    """Plain values as YAML."""
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def dump(recipe: Recipe) -> str:
    """The recipe as YAML, defaults included."""
    return dump_yaml(recipe.model_dump(mode="json"))


def dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys and their values."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        nested = isinstance(value, dict)
        values |= dotted(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return values


def settings_of(trainer: str, recipe: Recipe) -> dict[str, Any]:
    """The settings of `trl` or `verl`, by dotted key, that follow from `trainers.toml` alone."""
    file = resources.files("ktae.experiments").joinpath("trainers.toml")
    table = tomllib.loads(file.read_text("utf-8"))[trainer]
    of_recipe = {key: attrgetter(name)(recipe) for key, name in table["recipe"].items()}
    return {**table["constant"], **of_recipe}


def require_same(recipe: Recipe, file: Path) -> None:
    """Raise an InputError unless the file of a run to resume holds this recipe."""
    old, new = (dotted(x.model_dump(mode="json")) for x in (load(file), recipe))
    if changed := [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]:
        raise InputError(
            f"{file} differs from the recipe given in {', '.join(changed)}; "
            "resume with the recipe that the run was started with"
        )
