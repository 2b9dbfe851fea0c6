"""What every trainer is told about token credit, and what it says of it."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ktae.credit import AnEstimator, check_threshold, token_credit
from ktae.errors import InputError, expected_one_of
from ktae.estimators import DEFAULT, Estimator, as_estimator, resolved, to_text

if TYPE_CHECKING:
    from ktae.batch import Vocabulary


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an adapter is told, under the names that `ktae.trainers.trl.KTAETrainer` has."""

    credit: AnEstimator = DEFAULT
    """An estimator, a preset's name, `package.module:Name` of your own, a mapping as in a recipe,
    or a function."""
    correctness: str | None = None
    """Which of the engine's named rewards or metrics is the verdict; None: the reward itself."""
    threshold: float = 0.0
    """A rollout is correct where that is above it. A graded estimator takes the score itself."""
    tokenizer: Any = None
    """The tokenizer, or its folder or hub name, for estimators that look at the tokens' texts."""
    estimator: Estimator = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimator", resolved(as_estimator(self.credit, "credit")))
        check_threshold(self.threshold)
        if self.estimator.needs_vocabulary and self.tokenizer is None:
            raise InputError(
                f"tokenizer is None; {self.estimator} has units that are made of text, so expected "
                "the tokenizer, or its folder or hub name"
            )

    def tried(self, *handed_over: str) -> Settings:
        """Itself, after two rollouts of one token: what cannot work says so before the run.

        `handed_over` is what the engine has of `log_probs` and `entropies`.

        Raises:
            InputError: the estimator needs what the engine does not hand over.
        """
        estimator = self.estimator
        for name in sorted(estimator.needs_policy):
            if name not in handed_over:
                raise InputError(
                    f"credit is {estimator}, which needs {name}, and this trainer hands none over; "
                    "expected an estimator that needs none"
                )
        # A function of the user's that gives something else than credit shows it here.
        options: dict[str, Any] = {"vocabulary": self.vocabulary()}
        options["policy"] = {name: np.zeros((2, 1)) for name in estimator.needs_policy}
        arrays = np.array([[0], [1]]), np.ones((2, 1)), [1.0, 0.0], [0, 0], estimator
        token_credit(*arrays, turn_rewards=[[0.0], [1.0]], **options)
        return self

    def scores(
        self, rewards: Sequence[Any], named: Sequence[Mapping[str, Any]], *, is_step: bool = True
    ) -> list[float]:
        """What decides about each rollout: its reward, or the score that `correctness` names.

        NaN where a rollout has none (or None): its correctness is unknown, which is logged once.
        `is_step`: these are all rollouts of a step; of a part all may lack the score.

        Raises:
            InputError: all rollouts of a step have scores, and none of that name.
        """
        values = list(rewards)
        if self.correctness is not None:
            values = [scores.get(self.correctness) for scores in named]
            known = sorted({name for scores in named for name in scores})
            if is_step and known and self.correctness not in known:
                hint = expected_one_of(known, self.correctness)
                raise InputError(f"correctness is {self.correctness!r}, no rollout's score; {hint}")
            if not all(self.correctness in scores for scores in named):
                warn_once(f"rollouts without a score {self.correctness!r} get no credit")
        return [math.nan if value is None else float(value) for value in values]

    def vocabulary(self) -> Vocabulary | None:
        """The tokens' texts, where the estimator looks at them."""
        if not self.estimator.needs_vocabulary:
            return None
        from ktae.rollouts.tokens import kept_tokenizer, vocabulary

        by_name = isinstance(self.tokenizer, str)
        return vocabulary(kept_tokenizer(self.tokenizer) if by_name else self.tokenizer)


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning, the first time that this process has it."""
    if message not in _warned:
        _warned.add(message)
        logging.getLogger(__name__).warning(message)


def announce(estimator: Estimator | None, name: str, threshold: float, group_size: int) -> None:
    """Log what a training does, in one line, as a warning: lower levels are not shown by default.

    `name` is the reward that says what is correct.
    """
    if estimator is None:
        what = "no token credit"
    elif not estimator.takes_scores:
        what = f"credit {to_text(estimator)}; correct is {name} above {threshold:g}"
    else:
        what = f"credit {to_text(estimator)} of the scores {name}"
    logging.getLogger(__name__).warning(f"ktae: {what}; groups of {group_size}")


def one_of(name: str, value: Any, allowed: Sequence[Any], why: str = "") -> None:
    """Raise an InputError, which says why, unless the engine's setting is one of these."""
    if value not in allowed:
        because = f", {why}" if why else ""
        raise InputError(f"{name} is {value!r}{because}; expected {', '.join(map(repr, allowed))}")
