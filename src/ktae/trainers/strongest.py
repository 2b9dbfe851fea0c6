"""The tokens that a step gave most credit to, as a table in the trackers that are active."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.files.text import visible
from ktae.rollouts.tokens import token_texts
from ktae.trainers.metrics import PREFIX, Seen

TRACKERS = ("trackio", "wandb")
"""Those that have tables of text, by the names that TRL and verl give them."""

NAME = f"{PREFIX}strongest_tokens"
COLUMNS = ("token", "id", "credit", "count", "total", "correct", "incorrect")
"""The token's text with blanks as signs, its id, its mean credit over the places where it counts,
the number of these places, credit × count, and the correct and incorrect rollouts that hold it."""

MOST = 40
"""Rows of a table."""

MARKDOWN = re.compile(r"([!-/:-@\[-`{-~])")
"""What may mean something in Markdown: all of ASCII's punctuation can be escaped."""


class TokenSums(NamedTuple):
    """Each of V distinct tokens over a batch."""

    token_ids: np.ndarray
    """(V,) int64, ascending."""
    numbers: np.ndarray
    """(4, V) float64: the sum of its credit, its places, and the rollouts, correct and incorrect,
    that hold it."""


def token_sums(seen: Seen) -> TokenSums:
    """The sums over one process's own rollouts, at tokens that count."""
    ids_bt, credit_bt = seen.token_ids[seen.own].cpu().numpy(), seen.credit[seen.own].cpu().numpy()
    counted_bt = seen.mask[seen.own].cpu().numpy() != 0
    correct_b = seen.correct[seen.own].cpu().numpy()
    token_ids, which = np.unique(ids_bt[counted_bt], return_inverse=True)
    sums = np.bincount(which, credit_bt[counted_bt], len(token_ids))
    counts = np.bincount(which, minlength=len(token_ids))
    with_it = np.zeros((2, len(token_ids)))
    ends = np.cumsum(counted_bt.sum(axis=1))
    for correct, which_t in zip(correct_b, np.split(which, ends[:-1]), strict=True):
        if not np.isnan(correct):
            with_it[0 if correct else 1, np.unique(which_t)] += 1
    return TokenSums(token_ids.astype(np.int64), np.stack([sums, counts, *with_it]))


def merged(parts: Sequence[TokenSums]) -> TokenSums:
    """The sums over several batches or processes."""
    ids = np.concatenate([part.token_ids for part in parts])
    token_ids, which = np.unique(ids, return_inverse=True)
    numbers = np.concatenate([part.numbers for part in parts], axis=1)
    return TokenSums(
        token_ids, np.stack([np.bincount(which, row, len(token_ids)) for row in numbers])
    )


def rows_of(sums: TokenSums, tokenizer: Any, most: int = MOST) -> list[list[Any]]:
    """The tokens of greatest |total|, the greatest first, as rows of `COLUMNS`.

    Args:
        sums: of one or several batches.
        tokenizer: for the tokens' texts; of a slow one there are none.
        most: how many rows at most; tokens without credit have none.
    """
    total, count, correct, incorrect = sums.numbers
    order = np.argsort(-np.abs(total), kind="stable")[:most]
    order = order[total[order] != 0]
    texts: list[str | None] = [None] * len(order)
    with contextlib.suppress(InputError):  # a slow tokenizer: the ids have to do
        texts = token_texts(tokenizer, sums.token_ids[order].tolist())
    return [
        [
            visible(text) if text is not None else f"⟨#{sums.token_ids[i]}⟩",
            int(sums.token_ids[i]),
            float(total[i] / count[i]),
            int(count[i]),
            float(total[i]),
            int(correct[i]),
            int(incorrect[i]),
        ]
        for i, text in zip(order.tolist(), texts, strict=True)
    ]


def log(trackers: Collection[str], rows: list[list[Any]], **more: Any) -> None:
    """Send the table to those of `trackers` that are in `TRACKERS` and have a run under way.

    Args:
        trackers: names, as TRL's `report_to` and verl's `trainer.logger` have them.
        rows: of `rows_of`.
        **more: `step` for a tracker that is told steps; other names are logged beside the table.
    """
    step = {"step": more.pop("step")} if "step" in more else {}
    if "wandb" in trackers:
        import wandb

        if wandb.run is not None:
            wandb.log({NAME: wandb.Table(columns=list(COLUMNS), data=rows)} | more, **step)
    if "trackio" in trackers:
        import trackio

        if trackio.context_vars.current_run.get() is not None:
            # It shows texts as Markdown, in which a policy could ask for pictures from elsewhere.
            safe = [[MARKDOWN.sub(r"\\\1", row[0]), *row[1:]] for row in rows]
            trackio.log({NAME: trackio.Table(columns=list(COLUMNS), data=safe)} | more, **step)
