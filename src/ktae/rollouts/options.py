"""What a user says about how rollouts are read: one object, from the command line to the reader."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ktae.errors import InputError


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """How the rows of files become rollouts with token ids."""

    tokenizer: Any = None
    """A loaded fast tokenizer, a folder's path or a hub name. None: a run folder's own; without
    one, responses are cut at words, and token ids stay numbers."""
    threshold: float | None = None
    """A rollout without a field `correct` is correct if its reward is above this. None: above 0,
    and it is noted where rewards above 0 have several values."""
    correctness: str | None = None
    """Where a row has several rewards or metrics: the one that says whether it is correct."""
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Where a rollout's fields are in a row (`ktae.rollouts.paths`): {"reward": "scores.acc"}."""
    group_by: Sequence[str] = ()
    """Paths of what tells groups apart, all of them together; none: what rows say."""
    rows: str | None = None
    """The path to the rows of a container, such as `results[].samples[]`; None: looked for."""
    pool_models: bool = False  # whether rollouts of several models are one group
    needs_reward: bool = True  # whether a row without a reward is of no use; grading needs none
    join: bool = False  # whether a group may span files

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InputError(f"threshold is {self.threshold}; expected a finite number")

    @property
    def names_response(self) -> bool:
        """Whether the response is named, so that no tool's form is looked for."""
        return not {"response", "token_ids"}.isdisjoint(self.fields)

    @property
    def needed(self) -> tuple[str, ...]:
        """What a row in no known form has to be asked for."""
        return ("response", "group", "reward" if self.needs_reward else "answer")


DEFAULT = ReadOptions()
