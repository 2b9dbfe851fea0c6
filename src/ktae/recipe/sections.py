"""The sections of a recipe, each with its settings, their defaults and their ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

import pydantic
from pydantic import BeforeValidator, Discriminator, Field, PlainSerializer, Tag

from ktae.demo import language_named
from ktae.estimators import Estimator, from_section, to_section
from ktae.evaluation.templates import INSTRUCTION
from ktae.files.typed import Section

Positive = Annotated[int, Field(strict=True, gt=0)]


class Model(Section):
    """The policy to train."""

    path: str = "demo"
    """`demo` (the embedded base model, pretrained on first use), a folder, or a hub name."""

    demo_seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Which of the embedded base models: the seed of its pretraining."""

    lora_rank: Annotated[int, Field(strict=True, ge=0)] = 0
    """Train a LoRA adapter of that rank on all linear layers; 0 trains the whole model."""


class Demo(Section):
    """The embedded task."""

    language: str = "sums"
    """What its problems are about, and what its base models speak: `sums` (numbers, one after the
    other), or a language that another distribution offers. With ktae-lab comes `lists` (sequences
    of letters, rearranged)."""

    @pydantic.field_validator("language")
    @classmethod
    def _is_installed(cls, name: str) -> str:
        return language_named(name).name


class ReasoningGym(Section):
    """A task of reasoning-gym (`ktae.data.gym`)."""

    source: Literal["reasoning-gym"] = "reasoning-gym"

    name: str
    """Such as `chain_sum`."""

    settings: dict[str, Any] = Field(default={})
    """The task's own settings, such as `{min_terms: 2, max_terms: 2}`."""

    instruction: str | None = None
    """The system message; null: the model's own."""

    answer: Literal["last-number", "stated", "whole"] = "last-number"
    """What of a response is scored: its stated answer or else its last number, its stated answer
    alone, or all of it."""


class Problems(Section):
    """Mathematics with reference answers, which ktae's grader compares (`ktae.data.sources`)."""

    source: Literal["gsm8k", "math12k", "math-l3-5", "file"]
    """A data set of the hub by name, or `file`."""

    train: str | None = None
    """A file of problems to train on, instead of the hub's: JSON lines (also .gz) or Parquet."""

    test: str | None = None
    """The same for the held-out problems."""

    instruction: str | None = INSTRUCTION
    """The system message; null: the model's own."""

    @pydantic.model_validator(mode="after")
    def _has_files(self) -> Problems:
        if self.source == "file" and (self.train is None or self.test is None):
            raise ValueError("source is file; expected train and test, each a file of problems")
        return self


def _form_of_task(task: Any) -> str:
    if isinstance(task, Mapping):
        gym = task.get("source", "reasoning-gym") == "reasoning-gym"
    elif isinstance(task, ReasoningGym | Problems):
        gym = isinstance(task, ReasoningGym)
    else:
        return "(a name)"
    return "(reasoning-gym)" if gym else "(problems)"


def _known_source(value: Any) -> Any:
    """The task; a source that no form has is an error here, which names those of all forms."""
    source = value.get("source") if isinstance(value, Mapping) else None
    if source is not None and source not in SOURCES:
        raise ValueError(f"source is {source!r}; expected {', '.join(SOURCES)}")
    return value


SOURCES = tuple(
    name
    for form in (ReasoningGym, Problems)
    for name in get_args(form.model_fields["source"].annotation)
)

Task = Annotated[
    Annotated[Literal["demo", "math"], Tag("(a name)")]
    | Annotated[ReasoningGym, Tag("(reasoning-gym)")]
    | Annotated[Problems, Tag("(problems)")],
    Discriminator(_form_of_task),
    BeforeValidator(_known_source),
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

    temperature: Annotated[float, Field(strict=True, gt=0)] = 1.0
    """Sampling temperature."""


class Algorithm(Section):
    """The policy-gradient method underneath."""

    loss: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """How token losses are averaged: `grpo` per rollout first, `dapo` over all tokens of the
    batch, `dr_grpo` over a constant."""

    scale_by_std: bool = True
    """Divide the rollout advantage by the group's standard deviation."""

    clip_low: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.2
    """Lower clip range of the probability ratio."""

    clip_high: Annotated[float, Field(strict=True, gt=0)] = 0.2
    """Upper clip range; DAPO's clip-higher sets it above `clip_low`."""

    kl: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Coefficient of the KL penalty (`low_var_kl`) to the base model; 0 switches it off."""

    minibatches: Positive = 2
    """Optimizer steps that one training step's rollouts are split into."""

    epochs: Positive = 1
    """Times that each training step's rollouts are used."""

    overlong_buffer: Annotated[int, Field(strict=True, ge=0)] = 0
    """DAPO's overlong shaping: a penalty that grows from 0 to 1 over the last so many tokens before
    `rollout.max_response_length`. It counts for the reward, never for correctness."""

    resampling_rounds: Annotated[int, Field(strict=True, ge=0)] = 0
    """DAPO's dynamic sampling: at most so many more batches to replace groups of equal rewards;
    those that are left are dropped from the loss. 0 switches it off."""

    patience: Positive = 50
    """Stop after so many training steps in a row in which no group had unequal rewards. Only TRL
    does; verl runs all steps, and another number than this one is refused there."""


def _read_credit(section: Any) -> Any:
    """The estimator of a section, for pydantic, which wants a ValueError and says where."""
    return section if section is None or isinstance(section, Estimator) else from_section(section)


Credit = Annotated[
    Estimator,
    BeforeValidator(_read_credit),
    PlainSerializer(to_section, return_type=str | dict[str, Any]),
]


class Optimizer(Section):
    """AdamW."""

    learning_rate: Annotated[float, Field(strict=True, gt=0)] = 1e-6
    """Peak learning rate."""

    beta1: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.9
    """Decay of the first moment."""

    beta2: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.999
    """Decay of the second moment."""

    weight_decay: Annotated[float, Field(strict=True, ge=0)] = 0.0
    """Decoupled weight decay."""

    max_grad_norm: Annotated[float, Field(strict=True, gt=0)] = 1.0
    """Gradient clipping."""

    warmup_steps: Annotated[int, Field(strict=True, ge=0)] = 0
    """Training steps of linear warm-up; constant afterwards."""


class Verl(Section):
    """What only the engine `verl` reads: the cluster, and how the work is laid out on it."""

    mode: Literal["sync", "colocate_async", "separate_async"] = "sync"
    """verl's trainer mode."""

    nodes: Positive = 1
    """Machines for the trainer."""

    gpus_per_node: Positive = 8
    """GPUs on each of them."""

    rollout_engine: str = "vllm"
    """`vllm`, `sglang` or `trtllm`: what samples the rollouts."""

    tensor_parallel: Positive = 1
    """GPUs that one copy of the rollout engine spans."""

    gpu_memory: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.6
    """Share of a GPU's memory for the rollout engine."""

    tokens_per_gpu: Positive = 16384
    """Tokens in one forward or backward pass on a GPU."""

    validate_every: Positive = 5
    """Training steps between validations."""

    overrides: dict[str, Any] = Field(default={})
    """Any other key of verl's configuration, dotted or as sections, with its value."""


class Trl(Section):
    """What only the engine `trl` reads."""

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

    vllm_memory: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.3
    """Share of a GPU's memory for vLLM."""


class Logging(Section):
    """What is written while training."""

    save_every: Positive = 20
    """Training steps between checkpoints."""

    keep_checkpoints: Positive = 2
    """Checkpoints kept."""

    eval_problems: Annotated[int, Field(strict=True, gt=0, le=1024)] = 512
    """Held-out problems for the accuracy before and after."""

    report_to: tuple[str, ...] = ()
    """Trackers besides the run folder's own metrics: `tensorboard`; `trackio` and `wandb`, which
    get each step's strongest tokens as a table, too."""
