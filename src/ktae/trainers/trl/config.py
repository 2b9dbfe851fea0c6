"""The settings of token credit as fields of TRL's configuration."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

from trl import GRPOConfig

from ktae.credit import check_threshold
from ktae.errors import InputError
from ktae.estimators import DEFAULT
from ktae.trainers.settings import as_credit, one_of

CITATION = """\
@inproceedings{sun2025ktae,
    title        = {{KTAE}: A Model-Free Algorithm to Key-Tokens Advantage Estimation in \
Mathematical Reasoning},
    author       = {Wei Sun and Wen Yang and Pu Jian and Qianlong Du and Fuwei Cui and Shuo Ren \
and Jiajun Zhang},
    booktitle    = {Advances in Neural Information Processing Systems},
    year         = 2025,
    eprint       = {arXiv:2505.16826},
}"""
"""What a model card cites beside GRPO."""

SCALES = {"grpo": "group", "dr_grpo": "none"}
"""TRL's `scale_rewards` for each `base`."""


@dataclasses.dataclass
class KTAEConfig(GRPOConfig):
    """`trl.GRPOConfig` with the settings of token credit.

    TRL's parser reads them from the command line and from YAML, trackers show them with the rest,
    and the model card names them.

    Raises:
        InputError: a setting does not fit.
    """

    credit: dict[str, Any] | str | None = dataclasses.field(
        default=DEFAULT,
        metadata={
            "help": "What computes token credit: an estimator's name such as 'trigrams', "
            "'mine.py:NAME' of your own, or a mapping such as {estimator: ktae, h3: 0} (as JSON on "
            "the command line). None, in YAML null: plain GRPO. In Python also an estimator or a "
            "function."
        },
    )
    correctness: list[str] | None = dataclasses.field(
        default=None,
        metadata={
            "help": "The reward function that says whether a response is correct, by its name; of "
            "several the first counts that gives a number. Not needed where there is one."
        },
    )
    threshold: float = dataclasses.field(
        default=0.0, metadata={"help": "A response is correct where that reward is above it."}
    )
    base: str | None = dataclasses.field(
        default=None,
        metadata={
            "help": "The rollout advantage that credit is added to: 'grpo' (scale_rewards 'group') "
            "or 'dr_grpo' (scale_rewards 'none'); None: as scale_rewards says."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    def check(self) -> None:
        """Raise an InputError for a setting of token credit that does not fit."""
        if isinstance(self.credit, str) and self.credit.startswith("{"):
            self.credit = json.loads(self.credit)
        as_credit(self.credit)
        check_threshold(self.threshold)
        one_of("base", self.base, (None, *SCALES))
        if self.base is not None:
            allowed = [*dict.fromkeys(("group", SCALES[self.base]))]  # "group" is TRL's default
            scale = getattr(self, "scale_rewards", None)
            one_of("scale_rewards", scale, allowed, f"and base is {self.base!r}")
            self.scale_rewards: str = SCALES[self.base]


def with_settings(arguments: dict[str, Any], keywords: dict[str, Any]) -> Any:
    """A copy of a trainer's `args` with the fields of `KTAEConfig`; its `keywords` go before them.

    A plain `GRPOConfig` becomes a `KTAEConfig`, so that trackers see the fields; without `args` it
    is TRL's default. A subclass of one's own stays what it is, and so does what is none.
    """
    args = arguments.get("args")
    if args is None:
        model = arguments.get("model")
        name = model if isinstance(model, str) else model.config._name_or_path  # type: ignore[union-attr]
        args = KTAEConfig(f"{name.split('/')[-1]}-GRPO")
    if not isinstance(args, GRPOConfig):
        raise InputError(
            f"args is a {type(args).__name__}; expected a ktae.trainers.trl.KTAEConfig or a "
            "trl.GRPOConfig: other trainers take one advantage for each response"
        )
    config = copy.copy(args)
    if type(args) is GRPOConfig:
        config = KTAEConfig.__new__(KTAEConfig)
        config.__dict__.update(vars(args))
    for name in KTAEConfig.__annotations__:
        if name in keywords or not hasattr(args, name):
            default = next(f.default for f in dataclasses.fields(KTAEConfig) if f.name == name)
            setattr(config, name, keywords.get(name, default))
    KTAEConfig.check(config)
    return config
