"""Which part of a rollout is looked at: a share of its tokens, or what stands before its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.grading.extraction import extract


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


def own_answers(rollouts: Any) -> list[str | None]:
    """The answer that each of the B responses gives, without blanks; None where it gives none."""
    found = (extract(text or "") for text in rollouts["response"].to_pylist())
    return [re.sub(r"\s+", "", one.text) if one else None for one in found]


class Before(NamedTuple):
    """What `before_answer` returns."""

    keep: np.ndarray
    """(B,) how many tokens of each rollout are looked at."""
    unanswered: int
    """Responses that state no answer."""
    share: float
    """Of their tokens that is looked at."""


def before_answer(rollouts: Any, token_ids: np.ndarray, texts: Sequence[bytes | None]) -> Before:
    """What stands before each response first states its own answer.

    The answer is what the grader extracts, and it counts as stated wherever it stands as a number
    or word of its own. A response without an answer is cut at the median share of those with one:
    whole ones would be told apart by their length, and most of them are incorrect.

    Args:
        rollouts: a record with token ids.
        token_ids: (V,) the distinct token ids, ascending.
        texts: the V bytes of each of those; None where there is none.
    """
    sizes = np.array([len(text or b"") for text in texts], dtype=np.int64)
    counts_b, lengths_b = np.zeros((2, len(rollouts)), dtype=np.int64)
    answered_b = np.zeros(len(rollouts), dtype=bool)
    columns = (rollouts["token_ids"], rollouts["response"])
    for row, (ids, response) in enumerate(zip(*columns, strict=True)):
        which = np.searchsorted(token_ids, ids.values.to_numpy())
        lengths_b[row] = len(which)
        answer = extract(response.as_py() or "")
        if answer is None or not answer.text.strip():
            continue
        text = b"".join(texts[i] or b"" for i in which)
        place = re.search(
            rb"(?<![\w.])" + re.escape(answer.text.strip().encode()) + rb"(?!\w|\.\d)", text
        )
        if place is not None:
            ends = np.cumsum(sizes[which])
            counts_b[row] = np.searchsorted(ends, place.start(), side="right")
            answered_b[row] = True
    if not answered_b.any():
        raise InputError("no response states an answer that the grader can find")
    shares = counts_b[answered_b] / lengths_b[answered_b].clip(1)
    share = float(np.median(shares))
    counts_b[~answered_b] = np.ceil(share * lengths_b[~answered_b])
    return Before(counts_b, int((~answered_b).sum()), share)
