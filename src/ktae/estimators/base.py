"""What an estimator is: settings that turn checked rollouts into credit."""

from __future__ import annotations

import abc
import dataclasses
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ktae.arrays import LARGEST, Array
from ktae.errors import InputError
from ktae.statistics import Formula

if TYPE_CHECKING:
    from ktae.backends.table import CreditTable
    from ktae.backends.tensors import Tensors
    from ktae.batch import Batch, ScoreRange

    AnyBatch = Batch | Tensors
    MakeTable = Callable[[Batch, Formula], CreditTable]


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
                settings.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join([inner, *settings] if inner else settings)})"

    @abc.abstractmethod
    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """The credit of every token, times `weight`, plus the `base` of its rollout.

        Args:
            batch: a `ktae.batch.Batch`, or a `ktae.backends.tensors.Tensors` on a device (unless
                `on_host`).
            weight: multiplies the credit before it is rounded to float32.

        Returns:
            (B, T) float32, 0 where `batch.mask` is 0. Without credit (not `batch.counted()`, or a
            rollout of unknown correctness) a token has the base alone.
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

    def in_tables(self) -> Estimator | None:
        """The statistic of single tokens and verdicts that it rests on: what a table shows.

        Larger units, controls and whatever moves credit between tokens are left out; scales and
        ignored tokens stay. None: it rests on none.
        """
        return None

    def table(self, batch: Batch, make: MakeTable, weight: float = 1.0) -> CreditTable:
        """The credit table of the batch, for what `in_tables` gives.

        Args:
            batch: of arrays.
            make: a backend's `table`.
            weight: multiplies the credit.
        """
        raise TypeError(f"{self} has no table; its in_tables() may have one")

    def largest_credit(self, n: Array) -> Array:
        """What no |credit| in a group of n rollouts exceeds, for what `in_tables` gives."""
        raise TypeError(f"{self} has no bound; its in_tables() may have one")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AdvantageEstimator(Estimator):
    """An estimator that changes the rollout advantage token by token, and so computes it itself.

    Verdicts, 1 and 0, are its rewards. It does not see the trainer's rewards, in
    which there may be penalties of length or format; so its own rollout advantage is that of the
    verdicts, over the rollouts of known correctness. It is computed in the host's memory, whatever
    the backend.
    """

    scale_by_std: bool = True
    """Divide by the group's standard deviation, as the rollout advantage beside it does (a recipe's
    `algorithm.scale_by_std`). False beside `dr_grpo` and other advantages R - mean, as prime-rl's.
    With RLOO's neither is right."""

    def __post_init__(self) -> None:
        require_bool("scale_by_std", self.scale_by_std)

    @property
    def on_host(self) -> bool:
        """It has no kernels for a GPU."""
        return True

    @property
    def one_value_a_token(self) -> bool:
        """What a token gets depends on where it is."""
        return False


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class GradedAdvantageEstimator(AdvantageEstimator):
    """One whose rewards may be graded scores."""

    graded_rewards: bool = False
    """Take correctness as a number and not as a verdict. Without it, anything but 0, 1 and NaN is
    an error."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_bool("graded_rewards", self.graded_rewards)

    @property
    def score_range(self) -> ScoreRange:
        """Any number far from float32's limit."""
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
    def formula(self, weight: float) -> Formula:
        """The numbers that a backend computes with."""

    def prepared(self, batch: AnyBatch) -> AnyBatch:
        """The batch with graded scores as the formula takes them."""
        return batch

    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """See `Estimator.credit`."""
        return batch.context.contingency(self.prepared(batch), self.formula(weight))

    def in_tables(self) -> Estimator:
        """Itself, of verdicts."""
        return dataclasses.replace(self, graded_rewards=False)

    def table(self, batch: Batch, make: MakeTable, weight: float = 1.0) -> CreditTable:
        """See `Estimator.table`."""
        return make(cast("Batch", self.prepared(batch)), self.formula(weight))


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
