"""Which part of a rollout is looked at: a share of its tokens, or what stands before its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.grading.extraction import extract
from ktae.rollouts.spelling import spell, standing_alone


def first_share(rollouts: Any, share: float) -> np.ndarray:
    """(B,) how many tokens the first part of each rollout has, rounded up.

    Args:
        rollouts: a record with token ids.
        share: above 0, at most 1.

    Raises:
        InputError: `share` is out of range.
    """
    if not 0 < share <= 1:
        raise InputError(f"the share is {share:g}; expected a number above 0, at most 1")
    lengths_b = pc.list_value_length(rollouts["token_ids"]).to_numpy()
    counts_b: np.ndarray = np.ceil(lengths_b * share).astype(np.int64)
    return counts_b


def stated_answers(rollouts: Any) -> list[str | None]:
    """The answer that each of the B responses states, as it stands; None where it states none."""
    chunks = rollouts["response"].chunks  # one after another: as objects, texts are large
    return [_stated(text) for chunk in chunks for text in chunk.to_pylist()]


def _stated(text: str | None) -> str | None:
    found = extract(text or "")
    return found.text.strip() if found else None


class AskedAnswers(Sequence[str | None]):
    """`without_blanks` of the `stated_answers` of B responses, each found when it is asked for.

    Held-out pairs of a large dump ask for those of some groups.
    """

    def __init__(self, rollouts: Any) -> None:
        self._texts = rollouts["response"]
        self._found: dict[int, str | None] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: Any) -> Any:
        """The answer of one response."""
        if row not in self._found:
            (self._found[row],) = without_blanks([_stated(self._texts[int(row)].as_py())])
        return self._found[row]


def without_blanks(answers: Iterable[str | None]) -> list[str | None]:
    """Answers as they are compared with each other."""
    return [answer if answer is None else re.sub(r"\s+", "", answer) for answer in answers]


class Before(NamedTuple):
    """What `before_answer` returns."""

    keep: np.ndarray
    """(B,) how many tokens of each rollout are looked at."""
    unanswered: int
    """Responses that state no answer."""
    share: float
    """How much of them is looked at."""


def before_answer(
    rollouts: Any,
    token_ids: np.ndarray,
    texts: Sequence[bytes | None],
    answers: Sequence[str | None],
) -> Before:
    """What stands before each response first states its own answer.

    An answer counts as stated wherever it stands as a number or word of its own. A response without
    one is cut at the median share of the others: whole ones would be told apart by their length,
    and most of them are incorrect.

    Args:
        rollouts: a record with token ids.
        token_ids: (V,) the distinct token ids, ascending.
        texts: the V bytes of each of those; None where there is none.
        answers: the B responses' `stated_answers`.

    Raises:
        InputError: no response states an answer.
    """
    counts_b, lengths_b = np.zeros((2, len(rollouts)), dtype=np.int64)
    answered_b = np.zeros(len(rollouts), dtype=bool)
    for row, (ids, answer) in enumerate(zip(rollouts["token_ids"], answers, strict=True)):
        which_t = np.searchsorted(token_ids, ids.values.to_numpy())
        lengths_b[row] = len(which_t)
        if not answer:
            continue
        spelling = spell(texts, which_t)
        place = re.search(standing_alone(answer), spelling.text)
        if place is not None:
            counts_b[row], _ = spelling.tokens(*place.span())
            answered_b[row] = True
    if not answered_b.any():
        raise InputError("no response states an answer that the grader can find")
    shares = counts_b[answered_b] / lengths_b[answered_b].clip(1)
    share = float(np.median(shares))
    counts_b[~answered_b] = np.ceil(share * lengths_b[~answered_b])
    return Before(counts_b, int((~answered_b).sum()), share)
