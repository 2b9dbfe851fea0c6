"""The estimator's settings: one frozen dataclass, and the paper and its code as presets."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import operator
from collections.abc import Callable
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from ktae.errors import InputError

MAX_TOKEN_ID = 2**31 - 1

LARGEST = 1e30
"""Bound on every weight and reward, far beyond any use: no product of some of them overflows."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class KTAEConfig:
    """Settings of the key-token estimator. The defaults are the paper's.

    The paper's ablations are `h1=0` (no Fisher), `h2=0` (no information gain), `h3=0` (no term
    frequency).
    """

    h1: float = 1.0
    """Weight of the Fisher score in the strength of association; from 0."""

    h2: float = 2.0
    """Weight of the information gain (bits) in the strength of association; from 0."""

    h3: float = 1.0
    """Weight of the term-frequency ratio in the direction; from 0."""

    k1: float = 2.0
    """BM25's saturation of the term frequency; above 0."""

    b_len: float = 0.5
    """BM25's length normalisation, 0 (none) to 1 (full). The paper calls it `b`."""

    eps: float = 1e-5
    """Added to the denominators of the frequency ratio. The paper prints none and so divides by
    zero for a token that occurs in one class only; this value is the released code's."""

    fisher: Literal["two-sided", "point"] = "two-sided"
    """`two-sided`: the probability of all tables no more probable than this one. `point`: the
    probability of this one table, the equation that the paper prints."""

    normalize: bool = False
    """Divide the key-token value by h1 + h2, as the released code does."""

    term_scale: float = 1.0
    """The term is `term_scale · (σ(value) - 0.5)`: 1 in the paper, 2 in the released code."""

    statistic: Literal["ktae", "z"] = "ktae"
    """What a unit's occurrence in rollouts is worth. `ktae`: the paper's strength times direction,
    squashed. `z`: the permutation z-score of the scores of the rollouts that hold the unit, times
    `term_scale` (`ktae.statistics.presence_z`); h1 to eps, `fisher` and `normalize` play no part.
    """

    graded: bool = False
    """Take correctness as a number and not as a verdict: anything from 0 to 1 with statistic
    `ktae`, any finite number with `z`. Without it, anything but 0, 1 and NaN is an error."""

    units: tuple[str, ...] = ("token",)
    """What is counted, names in `ktae.units.UNITS`. With several, a token's term is the mean of
    the terms of its units."""

    control: Literal[
        "none",
        "permuted-labels",
        "shuffled-values",
        "random-tokens",
        "rollout-mean",
        "within-rollout",
    ] = "none"
    """A control experiment under the estimator's name (`ktae.controls`): what remains of an effect
    when the evidence is destroyed, or when only one part of the terms is kept."""

    control_seed: int = 0
    """Of the control's random numbers, which depend on it and the rollouts alone."""

    ignore_token_ids: tuple[int, ...] = ()
    """Token ids that are neither counted nor given a value, as if they were masked. The
    end-of-sequence token is in every finished rollout and in no truncated one, so its term is a
    length signal; put its id here to leave that signal out."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # which JSON does not know
                object.__setattr__(self, field.name, value.item())
        for name in ("h1", "h2", "h3"):
            _require(self, name, 0, LARGEST)
        for name in ("k1", "eps", "term_scale"):
            _require(self, name, 1 / LARGEST, LARGEST)
        _require(self, "b_len", 0, 1)
        for name in ("normalize", "graded"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {getattr(self, name)!r}; expected true or false")
        for name, choices in _choices().items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}; expected one of {', '.join(choices)}"
                )
        if not _is_integer(self.control_seed) or self.control_seed < 0:
            raise InputError(f"control_seed is {self.control_seed!r}; expected an integer from 0")
        if self.normalize and self.h1 + self.h2 < 1 / LARGEST:
            raise InputError(
                f"normalize divides by h1 + h2, and that is {self.h1 + self.h2!r}; "
                f"expected at least {1 / LARGEST:g}"
            )
        object.__setattr__(self, "ignore_token_ids", _token_ids(self.ignore_token_ids))
        object.__setattr__(self, "units", _units(self.units))

    def numbers(self) -> dict[str, Any]:
        """The formulas' settings as plain floats and bools, for compiled backends."""
        names = ("h1", "h2", "h3", "k1", "b_len", "eps", "term_scale")
        floats = {name: float(getattr(self, name)) for name in names}
        z = self.statistic == "z"
        if z:
            floats["h3"] = 0.0  # its direction is the z-score alone
        return floats | {
            "value_scale": 1.0 / (self.h1 + self.h2) if self.normalize else 1.0,
            "point": self.fisher == "point",
            "z": z,
        }

    def largest_term(self, n: Any) -> Any:
        """What no |term| in a group of n rollouts exceeds; n is an int or an array of them."""
        if self.statistic == "z":
            return self.term_scale * (n - 1) ** 0.5
        return 0 * n + self.term_scale / 2

    def for_single_tokens(self) -> KTAEConfig:
        """The same statistic of single tokens and verdicts, without a control: what tables show."""
        return dataclasses.replace(self, units=("token",), graded=False, control="none")

    @classmethod
    def paper(cls, **overrides: Any) -> KTAEConfig:
        """The formulas as the paper prints them (the default)."""
        return cls(**overrides)

    @classmethod
    def released(cls, **overrides: Any) -> KTAEConfig:
        """What the authors' released code computes, but for its float32 Fisher test.

        Its estimator call hard-codes h2 = 1 whatever the launch scripts pass, divides the value by
        h1 + h2, doubles the term, and gives token 151643 (Qwen's `<|endoftext|>`) no value. Its
        float32 comparison of tied tables, which mistakes many p = 1 for p < 1, is not reproduced.
        """
        settings: dict[str, Any] = {
            "h2": 1.0,
            "normalize": True,
            "term_scale": 2.0,
            "ignore_token_ids": (151643,),
        }
        return cls(**(settings | overrides))

    @classmethod
    def calibrated(cls, **overrides: Any) -> KTAEConfig:
        """An estimator that is silent where the data are: its expected term under permuted labels
        is exactly 0, whatever a token's frequency and the group's accuracy.

        The statistic is linear in the scores, so it needs no correction for its mean, serves graded
        rewards by the same line, and is bounded as GRPO's advantage is (by √(n - 1)). A unit's z
        has variance 1 under permutation, as that advantage has over rollouts, so `term_scale` is
        the term's weight relative to it where a unit tells anything; over all tokens the root mean
        square is less (0.23 of it on random labels), since many are in every rollout and the units'
        mean has a smaller variance.
        """
        settings: dict[str, Any] = {
            "statistic": "z",
            "term_scale": 0.3,
            "units": ("token", "bigram"),
        }
        return cls(**(settings | overrides))

    @classmethod
    def preset(cls, name: str, /, **overrides: Any) -> KTAEConfig:
        """The preset of that name (a key of `PRESETS`), with fields replaced by `overrides`.

        Raises:
            InputError: there is no such preset or no such field; the message lists what there is.
        """
        if name not in PRESETS:
            raise InputError(f"no preset {name!r}; expected one of {', '.join(PRESETS)}")
        fields = [field.name for field in dataclasses.fields(cls)]
        for key in overrides:
            if key not in fields:
                raise InputError(f"no KTAE setting {key!r}; expected one of {', '.join(fields)}")
        return PRESETS[name](**overrides)


PRESETS: dict[str, Callable[..., KTAEConfig]] = {
    "paper": KTAEConfig.paper,
    "released": KTAEConfig.released,
    "calibrated": KTAEConfig.calibrated,
    # The paper's ablations (sec. 4.4); any of them may be combined with other settings.
    "no-fisher": functools.partial(KTAEConfig, h1=0.0),
    "no-ig": functools.partial(KTAEConfig, h2=0.0),
    "no-tf": functools.partial(KTAEConfig, h3=0.0),
}


def _require(config: KTAEConfig, name: str, low: float, high: float) -> None:
    value = getattr(config, name)
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise InputError(f"{name} is {value!r}; expected a number from {low:g} to {high:g}")


@functools.cache
def _choices() -> dict[str, tuple[str, ...]]:
    """The values that the fields with a closed set of them may have."""
    hints = get_type_hints(KTAEConfig)
    return {name: get_args(hints[name]) for name in ("fisher", "statistic", "control")}


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _units(names: Any) -> tuple[str, ...]:
    from ktae.units import UNITS  # which need this module

    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"units is {names!r}; expected a tuple of names")
    if not names or len(set(names)) < len(names):
        raise InputError(f"units is {names!r}; expected at least one name, and none twice")
    for name in names:
        if name not in UNITS:
            raise InputError(f"no unit {name!r}; expected one of {', '.join(UNITS)}")
    return tuple(names)


def _token_ids(ids: Any) -> tuple[int, ...]:
    try:
        distinct = tuple(sorted({operator.index(i) for i in ids}))
    except TypeError:
        raise InputError(f"ignore_token_ids is {ids!r}; expected a tuple of token ids") from None
    if distinct and (distinct[0] < 0 or distinct[-1] > MAX_TOKEN_ID):
        raise InputError(f"ignore_token_ids is {ids!r}; expected ids from 0 to {MAX_TOKEN_ID}")
    return distinct
