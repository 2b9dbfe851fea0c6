"""The tokens that a step gave most credit to, as a table in the trackers that are active."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Sequence
from typing import Any

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


TokenSums = np.ndarray
"""(5, V) float64, of each of V distinct tokens over a batch: its id, the sum of its credit, its
places, and the rollouts, correct and incorrect, that hold it."""


def token_sums(seen: Seen) -> TokenSums:
    """The sums over one process's own rollouts, at tokens that count."""
    counted = seen.mask[seen.own].cpu().numpy() != 0
    ids, which = np.unique(seen.token_ids[seen.own].cpu().numpy()[counted], return_inverse=True)
    credit = seen.credit[seen.own].cpu().numpy()[counted]
    holding = np.zeros((2, len(ids)))
    ends = np.cumsum(counted.sum(axis=1))[:-1]
    correct_b = seen.correct[seen.own].tolist()
    for correct, of_row in zip(correct_b, np.split(which, ends), strict=False):
        if correct in (0, 1):
            holding[int(correct == 0), np.unique(of_row)] += 1
    sums = np.bincount(which, credit, len(ids)), np.bincount(which, minlength=len(ids))
    return np.stack([ids, *sums, *holding])


def merged(parts: Sequence[TokenSums]) -> TokenSums:
    """The sums over several batches or processes."""
    ids, *sums = np.concatenate(parts, axis=1)
    ids, which = np.unique(ids, return_inverse=True)
    return np.stack([ids, *(np.bincount(which, row, len(ids)) for row in sums)])


def rows_of(sums: TokenSums, tokenizer: Any, most: int = MOST) -> list[list[Any]]:
    """The tokens of greatest |total|, the greatest first, as rows of `COLUMNS`.

    Args:
        sums: of one or several batches.
        tokenizer: for the tokens' texts; of a slow one there are none.
        most: how many rows at most; tokens without credit have none.
    """
    order = np.argsort(-np.abs(sums[1]), kind="stable")[:most]
    rows = sums.T[order[sums[1, order] != 0]].tolist()
    texts: list[str | None] = [None] * len(rows)
    with contextlib.suppress(InputError):  # a slow tokenizer: the ids have to do
        texts = token_texts(tokenizer, [int(row[0]) for row in rows])
    table = []
    for text, (token_id, total, *counts) in zip(texts, rows, strict=True):
        shown = visible(text) if text is not None else f"⟨#{token_id:.0f}⟩"
        places, correct, incorrect = map(int, counts)
        table.append([shown, int(token_id), total / places, places, total, correct, incorrect])
    return table


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
