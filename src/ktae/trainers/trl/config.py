"""The settings of token credit as fields of TRL's configuration."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

from trl import GRPOConfig

from ktae.credit import check_threshold
from ktae.errors import InputError
from ktae.estimators import DEFAULT, as_estimator


@dataclasses.dataclass
class KTAEConfig(GRPOConfig):
    """`trl.GRPOConfig` with the settings of token credit.

    TRL's parser reads them from the command line and from YAML, and trackers show them.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check()

    def check(self) -> None:
        """Raise an InputError for a setting of token credit that does not fit."""
        if isinstance(self.credit, str) and self.credit.startswith("{"):
            self.credit = json.loads(self.credit)
        if self.credit is not None:
            as_estimator(self.credit, "credit")
        check_threshold(self.threshold)


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
