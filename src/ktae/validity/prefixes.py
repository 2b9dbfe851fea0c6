"""Which part of a rollout is looked at: what stands before its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.grading.extract import Fallback, extract
from ktae.grading.forms import key
from ktae.rollouts.tokens import spell, standing_alone

_ARITHMETIC = re.compile(r"^[\d\s.,+*/()=−×÷-]+=")

_LOOKED_AT = 400
"""Responses, spread over a dump, that say whether its responses state answers."""


def stated_answers(rollouts: Any) -> list[str | None]:
    """The answer that each of the B responses states, as it stands; None where it states none."""
    chunks = rollouts["response"].chunks  # one after another: as objects, texts are large
    return [_stated(text) for chunk in chunks for text in chunk.to_pylist()]


def _stated(text: str | None, fallback: Fallback = "stated") -> str | None:
    answer = extract(text or "", fallback)
    # "96 + 60 = 156" states 156: it is one vote with "156."
    return _ARITHMETIC.sub("", answer.text).strip() if answer else None


class AskedAnswers(Sequence[str | None]):
    """The answers of a record's responses as they are compared, each found when it is asked for.

    `fallback` says how (`ktae.grading.extract`). None: where fewer than half of the responses
    state one, the last number of a response counts as its answer, too.
    """

    def __init__(self, rollouts: Any, fallback: Fallback | None = None) -> None:
        self._texts = texts = rollouts["response"]
        self._found: dict[int, str | None] = {}
        if fallback is None:
            # Spread over the dump, since its order is often that of training or of difficulty.
            n = min(len(texts), _LOOKED_AT)
            rows = np.unique(np.linspace(0, len(texts) - 1, n).astype(int)).tolist()
            stated = sum(_stated(texts[row].as_py()) is not None for row in rows)
            fallback = "last" if 2 * stated < len(rows) else "stated"
        self._fallback: Fallback = fallback

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: Any) -> Any:
        """The answer of one response."""
        if row not in self._found:
            answer = _stated(self._texts[int(row)].as_py(), self._fallback)
            # However an answer is written, it is one vote.
            self._found[row] = answer and key(answer)
        return self._found[row]


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
    """
    if all(text is None for text in texts):
        raise InputError(
            "the token ids have no texts, so nobody knows where an answer stands among them; "
            "expected a tokenizer (--tokenizer)"
        )
    counts_b, lengths_b = np.zeros((2, len(rollouts)), dtype=np.int64)
    answered_b = np.zeros(len(rollouts), dtype=bool)
    for row, (ids, answer) in enumerate(zip(rollouts["token_ids"], answers, strict=True)):
        which_t = np.searchsorted(token_ids, ids.values.to_numpy())
        lengths_b[row] = len(which_t)
        if not answer:
            continue
        # In the text of the tokens themselves: a response that was decoded may differ from it.
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
