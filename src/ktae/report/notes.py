"""What a page can and cannot say about a dump, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.report.summary import Scored
from ktae.rollouts.notes import Notes


class Note(NamedTuple):
    """One thing to know about the numbers on the page."""

    severe: bool
    """Whether something that a reader expects is missing; shown open."""
    title: str
    text: str


def notes_of(dump: Dump, columns: Frame, scored: Scored) -> list[Note]:
    """All notes about a dump, the severe ones first."""
    notes = [*_about_rewards(dump.notes, columns), *_about_groups(columns, scored)]
    if dump.unit == "ids":
        text = "All values are computed. --tokenizer, a folder or a hub name, gives their text."
        notes.append(Note(True, "No tokenizer, so tokens have numbers and no text", text))
    notes += _about_reading(dump.notes)
    for name, n in columns.signals_found[1].items():
        title = f"{counted(n, 'rollout')} without {name.replace('_', '-')}"
        text = "What they hold is not a list of one number for each token id, so it is not shown."
        notes.append(Note(False, title, text))
    notes = [x._replace(title=f"{x.title[:1].upper()}{x.title[1:]}") for x in notes]
    return sorted(notes, key=lambda note: not note.severe)


def _about_rewards(notes: Notes, columns: Frame) -> Iterator[Note]:
    missing, n = notes.counts["without_reward"], len(columns.rollouts)
    # Without any reward the other notes would only say the same again.
    if missing == n:
        yield Note(
            True,
            "No rewards",
            "No row has a reward or a verdict, so nothing can be compared: there is no credit and "
            "no p-values. Rollouts, lengths and how often tokens occur are shown. Add a field "
            "reward (a number) or correct (true, false or null).",
        )
        return
    if missing:
        yield Note(
            True,
            f"{missing:,} of {n:,} rollouts have no reward",
            "Their correctness is unknown: they are shown, left out of every table and of the mean "
            "reward, and have no credit.",
        )
    # Those without a reward were counted already.
    unknown = int(np.isnan(columns.correct_b).sum()) - missing
    if unknown > 0:
        yield Note(
            False,
            f"{unknown:,} of {n:,} rollouts have no verdict",
            "The verifier could not decide; they are left out of every table and have no credit, "
            "and never count as wrong.",
        )
    # A dump may have advantages for some rollouts only: another formula for the rest would mix two.
    without = int(np.isnan(columns.advantage_b).sum())
    if not columns.own_advantages:
        yield Note(
            False,
            "Rollout advantages are computed here",
            "The dump holds none, so they are GRPO's: (reward - mean) / (standard deviation + "
            "1e-6) over the rollouts of the group that have a reward.",
        )
    elif without:
        yield Note(
            False,
            f"{without:,} of {n:,} rollouts have no advantage",
            "The others' are the dump's. By which formula it got them is not known, so none is "
            "computed in the place of those that it lacks.",
        )


def _about_groups(columns: Frame, scored: Scored) -> Iterator[Note]:
    known = ~np.isnan(columns.correct_b)
    if np.diff(columns.starts_g).max(initial=0) < 2:
        yield Note(
            True,
            "One rollout a prompt",
            "Every group has one rollout: there is nothing to compare it with, so there is no "
            "credit. Rollouts of the same prompt need the same group, and at least two.",
        )
    elif known.any() and not ((scored.n_true_g > 0) & (scored.n_false_g > 0)).any():
        verdicts = np.unique(columns.correct_b[known])
        kind = {(1.0,): "right", (0.0,): "wrong"}.get(tuple(verdicts.tolist()))
        yield Note(
            True,
            f"Every rollout is {kind}" if kind else "No group is mixed",
            "Credit compares the right rollouts of a prompt with its wrong ones. Here no "
            "prompt has both, so all credit is 0; lengths and how often tokens occur are shown.",
        )


def _about_reading(notes: Notes) -> Iterator[Note]:
    """What of the files is not in the dump, and how their rows became rollouts and groups."""
    for note in notes:
        if note.text.startswith("rollouts without a reward"):
            continue  # said with what it means for the page
        yield Note(note.severe, note.text, note.more)
