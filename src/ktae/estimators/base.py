"""What an estimator is: settings that turn a checked batch into credit."""

from __future__ import annotations

import abc
import dataclasses
import functools
import numbers
import operator
import typing
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from ktae import counting
from ktae.arrays import MAX_MAGNITUDE, Array, namespace
from ktae.batch import EQUAL, Batch, differ, group_extreme
from ktae.counting import Counts
from ktae.errors import InputError
from ktae.rollout_advantages import rollout_advantages
from ktae.turns import ODD, Normalise, Turns, find_turns, state_hashes


class Between(NamedTuple):
    """What a number among the settings may be."""

    low: float
    high: float = MAX_MAGNITUDE


FromZero = Annotated[float, Between(0)]
AboveZero = Annotated[float, Between(1 / MAX_MAGNITUDE)]
Share = Annotated[float, Between(0, 1)]

type_hints = functools.cache(typing.get_type_hints)


class Estimator(abc.ABC):
    """How much credit each token gets. A subclass is a frozen dataclass of its own settings.

    A subclass has to define `credit` alone. Settings are checked by their types: bool, a `Literal`,
    and numbers such as `FromZero`.
    """

    takes_scores: bool = False
    """Whether it takes graded scores; if not, it takes verdicts."""
    needs_vocabulary: bool = False
    """Whether it looks at the tokens' texts."""
    needs_policy: frozenset[str] = frozenset()
    """What it needs of the policy that sampled: `log_probs`, `entropies`, both or nothing."""
    needs_turn_rewards: bool = False
    on_host: bool = False
    """Whether it takes arrays in the host's memory alone; tensors are brought there."""

    def __post_init__(self) -> None:
        hints = type_hints(type(self), include_extras=True)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            name, hint, value = field.name, hints[field.name], getattr(self, field.name)
            if isinstance(value, np.generic):  # which JSON does not know
                value = value.item()
            fits, expected = hint is not bool or isinstance(value, bool), "true or false"
            kind, args = typing.get_origin(hint), typing.get_args(hint)
            if kind is Literal:
                fits, expected = value in args, f"one of {', '.join(args)}"
            elif kind is Annotated:
                number, (low, high) = args
                is_number = isinstance(value, numbers.Integral if number is int else numbers.Real)
                fits = is_number and not isinstance(value, bool) and low <= value <= high
                expected = "an integer" if number is int else "a number"
                expected += f" from {low:g} to {high:g}"
            if not fits:
                raise InputError(f"{name} is {value!r}; expected {expected}")
            object.__setattr__(self, name, number(value) if kind is Annotated else value)

    @abc.abstractmethod
    def credit(self, batch: Batch) -> Array:
        """(B, T) float32 credit of every token, in an array that may be written to.

        It is 0 where `batch.mask` is 0, at ignored tokens, and in rollouts of unknown correctness
        (unless the batch has them looked up).
        """

    def by_units(self) -> ByUnits | None:
        """The n-grams whose own credit makes up all of this estimator's; None: it is not so."""
        return None

    def changed(self) -> dict[str, Any]:
        """The settings that are not at their defaults, by name."""
        return {
            field.name: value
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, field.name)) != field.default
        }

    def __repr__(self) -> str:
        """The expression that makes it: settings at their defaults are left out."""
        settings = []
        for name, value in self.changed().items():
            # A function's name, which is the same in every process.
            text = getattr(value, "__qualname__", repr(value))
            settings.append(text if name in ("inner", "function") else f"{name}={text}")
        return f"{type(self).__name__}({', '.join(settings)})"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class GradedEstimator(Estimator):
    """An estimator whose rewards may be graded scores."""

    graded_rewards: bool = False
    """Take correctness as a number; without it, anything but 0, 1 and NaN is an error."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "takes_scores", self.graded_rewards)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AdvantageEstimator(Estimator):
    """An estimator that changes the rollout advantage token by token, and so computes it itself.

    It does not see the trainer's rewards, with their penalties: its advantage is that of
    correctness, over the rollouts whose correctness is known, in the host's memory.
    """

    scale_by_std: bool = True
    """Divide by the group's standard deviation, as the rollout advantage beside it does. False
    beside `dr_grpo` and other advantages R - mean, as prime-rl's; with RLOO's neither is right."""

    on_host = True

    def advantages(self, batch: Batch) -> np.ndarray:
        """(B,) float64 rollout advantages; 0 without evidence or where rewards are equal."""
        kind, is_evidence_b = "grpo" if self.scale_by_std else "dr_grpo", batch.is_evidence()
        reward_b = np.where(is_evidence_b, batch.evidence, 0.0)
        advantage_b = rollout_advantages(kind, reward_b, is_evidence_b, batch.group_b)
        # Rounding leaves a little of a reward that is its group's mean: it has no sign.
        largest_b = group_extreme(np.abs(advantage_b), is_evidence_b, batch.group_b, "max")
        is_some_b = np.abs(advantage_b) > EQUAL * largest_b
        return np.where(differ(*batch.score_bounds()) & is_some_b, advantage_b, 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TurnEstimator(Estimator):
    """An estimator that gives all tokens of a turn the same credit, in the host's memory."""

    normalise: Normalise | None = None
    """States are equal where this function of their text is; None: where their token ids are."""

    on_host = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "needs_vocabulary", self.normalise is not None)

    @abc.abstractmethod
    def turn_credit(self, batch: Batch, turns: Turns) -> np.ndarray:
        """(N,) the credit of each turn."""

    def states(self, batch: Batch, turns: Turns) -> np.ndarray:
        """(N,) uint64, equal for turns that a group took in the same state."""
        seen_n = state_hashes(turns, batch.token_ids, batch.vocabulary, self.normalise)
        state_n: np.ndarray = seen_n + batch.group_b[turns.row].astype(np.uint64) * ODD
        return state_n

    @override
    def credit(self, batch: Batch) -> Array:
        batch.check_token_ids()
        turns = find_turns(batch.mask)
        credit_n = self.turn_credit(batch, turns) + 0.0  # not -0.0
        credit_bt = np.zeros(batch.token_ids.shape, dtype=np.float32)
        credit_bt[batch.mask != 0] = turns.per_token(credit_n)
        credit_bt[~batch.counted()] = 0
        return credit_bt


class Explained(NamedTuple):
    """How the credit of each row of `Counts` came about, (K,) float64 each."""

    direction: Array  # above 0 speaks for correct
    value: Array
    credit: Array


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ContingencyEstimator(Estimator):
    """An estimator whose credit is a function of each unit's counts in its group."""

    @abc.abstractmethod
    def explain(self, counts: Counts) -> Explained:
        """The credit of each row, by NumPy or torch; anything where nothing can be compared."""

    @abc.abstractmethod
    def largest(self, n: Array) -> Array:
        """What no |credit| in a group of n responses exceeds."""

    def p_values(self, table: tuple[Array, Array, Array, Array]) -> Array:
        """(T,) float64 p-values of contingency tables, as tables show them."""
        return counting.p_values(table)

    def prepared(self, batch: Batch) -> Batch:
        """The batch with graded scores as `explain` takes them."""
        return batch

    @override
    def by_units(self) -> ByUnits:
        return ByUnits(self, ("token",), 1.0)

    @override
    def credit(self, batch: Batch) -> Array:
        return self.by_units().credit(batch)


class ByUnits(NamedTuple):
    """Credit that is nothing but a factor times the mean of each unit's own credit."""

    statistic: ContingencyEstimator
    units: tuple[str, ...]
    factor: float

    def credit(self, batch: Batch, compute: Any = None) -> Array:
        """(B, T) float32, by `ktae.counting.credit` or another way, such as `naive.credit`."""
        compute = compute or counting.credit
        return compute(self.statistic.prepared(batch), self._of_tokens, self.units)

    def _of_tokens(self, *counts: Counts) -> Array:
        weight = self.factor / len(counts)

        def of_unit(unit: Counts) -> Array:
            credit = weight * self.statistic.explain(unit).credit
            xp = namespace(credit)
            # Not -0.0, which a strength of 0 and an effect below 0 give.
            credit = xp.where(unit.comparable(), credit + 0.0, 0.0)
            return xp.asarray(credit, dtype=xp.float32)[unit.index]

        return functools.reduce(operator.iadd, map(of_unit, counts))


def impute_by_key(credit_n: np.ndarray, known_n: np.ndarray, key_n: np.ndarray) -> np.ndarray:
    """(N,) credit; of unknown ones the mean of the known ones with the same key, 0 of none."""
    number = np.unique(key_n, return_inverse=True)[1]
    total, n_known = np.bincount(number, credit_n * known_n), np.bincount(number, known_n)
    return np.where(known_n, credit_n, (total / n_known.clip(1))[number])
