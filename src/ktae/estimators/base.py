"""What an estimator is: settings that turn a checked batch into credit."""

from __future__ import annotations

import abc
import dataclasses
import numbers
from typing import Any

import numpy as np
from typing_extensions import override

from ktae import backends
from ktae.arrays import LARGEST, Array
from ktae.batch import Batch, ScoreRange
from ktae.errors import InputError
from ktae.statistics import Formula


class Estimator(abc.ABC):
    """How much credit each token gets. A subclass is a frozen dataclass of its own settings.

    A subclass has to define `credit` alone. Two estimators of equal settings are equal, and each
    prints as the expression that makes it.
    """

    def __repr__(self) -> str:
        """The expression that makes it: settings at their defaults are left out."""
        inner, settings = "", []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == "inner":
                inner = repr(value)
            elif value != field.default:
                # A function's name, which is the same in every process.
                settings.append(f"{field.name}={getattr(value, '__qualname__', repr(value))}")
        return f"{type(self).__name__}({', '.join([inner, *settings] if inner else settings)})"

    @abc.abstractmethod
    def credit(self, batch: Batch) -> Array:
        """(B, T) float32 credit of every token, in memory that nobody else has.

        It is 0 where `batch.mask` is 0, at ignored tokens, and in rollouts of unknown correctness
        (unless the batch has them looked up). A batch of tensors on a device comes to those alone
        that are not `on_host`.
        """

    @property
    def score_range(self) -> ScoreRange:
        """The least and greatest graded score it takes; None: it takes verdicts."""
        return None

    @property
    def needs_vocabulary(self) -> bool:
        """Whether it looks at the tokens' texts."""
        return False

    @property
    def needs_policy(self) -> frozenset[str]:
        """What it needs of the policy that sampled: `log_probs`, `entropies`, both or nothing."""
        return frozenset()

    @property
    def needs_step(self) -> bool:
        """Whether it looks at the number of training steps done before."""
        return False

    @property
    def on_host(self) -> bool:
        """Whether it takes arrays in the host's memory alone; tensors are brought there."""
        return False

    @property
    def one_value_a_token(self) -> bool:
        """Whether a token has the same credit wherever it is in a group."""
        return True


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AdvantageEstimator(Estimator):
    """An estimator that changes the rollout advantage token by token, and so computes it itself.

    Verdicts, 1 and 0, are its rewards. It does not see the trainer's rewards, in
    which there may be penalties of length or format; so its own rollout advantage is that of the
    verdicts, over the rollouts of known correctness. It is computed in the host's memory.
    """

    scale_by_std: bool = True
    """Divide by the group's standard deviation, as the rollout advantage beside it does (a recipe's
    `algorithm.scale_by_std`). False beside `dr_grpo` and other advantages R - mean, as prime-rl's.
    With RLOO's neither is right."""

    def __post_init__(self) -> None:
        require_bool("scale_by_std", self.scale_by_std)

    @property
    @override
    def on_host(self) -> bool:
        return True

    @property
    @override
    def one_value_a_token(self) -> bool:
        return False


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class GradedAdvantageEstimator(AdvantageEstimator):
    """An advantage estimator whose rewards may be graded scores."""

    graded_rewards: bool = False
    """Take correctness as a number and not as a verdict. Without it, anything but 0, 1 and NaN is
    an error."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_bool("graded_rewards", self.graded_rewards)

    @property
    @override
    def score_range(self) -> ScoreRange:
        return (-LARGEST, LARGEST) if self.graded_rewards else None


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ContingencyEstimator(Estimator):
    """An estimator whose credit is a formula of each token's contingency table in its group."""

    graded_rewards: bool = False
    """Take correctness as a number and not as a verdict; see `score_range`. Without it, anything
    but 0, 1 and NaN is an error."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # which JSON does not know
                object.__setattr__(self, field.name, value.item())
        require_bool("graded_rewards", self.graded_rewards)

    @abc.abstractmethod
    def formula(self) -> Formula:
        """The numbers that a backend computes with."""

    def prepared(self, batch: Batch) -> Batch:
        """The batch with graded scores as the formula takes them."""
        return batch

    @override
    def credit(self, batch: Batch) -> Array:
        return backends.credit(self.prepared(batch), self.formula())


def require_number(name: str, value: Any, low: float, high: float = LARGEST) -> float:
    """The value as a float; an InputError unless it is a real number from `low` to `high`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise InputError(f"{name} is {value!r}; expected a number from {low:g} to {high:g}")
    return float(value)


def require_bool(name: str, value: Any) -> None:
    """Raise an InputError unless it is true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; expected true or false")


def require_integer(name: str, value: Any, low: int) -> int:
    """The value as Python's int; an InputError unless it is an integer from `low`."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < low:
        raise InputError(f"{name} is {value!r}; expected an integer from {low}")
    return int(value)


def require_normalise(value: Any) -> None:
    """Raise an InputError unless it is None or a function."""
    if value is not None and not callable(value):
        raise InputError(f"normalise is {value!r}; expected a function of an observation's text")
