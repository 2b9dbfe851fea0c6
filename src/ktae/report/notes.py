"""What a page can and cannot say about a dump, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.estimators import Estimator, to_text
from ktae.files.text import counted
from ktae.report import regrading, sampling
from ktae.report.frame import Frame
from ktae.tables import in_tables


class Note(NamedTuple):
    """One thing to know; severe (shown open) where what a reader expects is missing."""

    severe: bool
    title: str
    text: str


def notes_of(frame: Frame, mixed_g: np.ndarray) -> list[Note]:
    """All notes about a dump, the severe ones first."""
    dump, n = frame.dump, len(frame.rollouts)
    missing = dump.notes.counts["without_reward"]
    if missing == n:
        text = (
            "No row has a reward or a verdict, so nothing can be compared: there is no credit and "
            "no p-values. Rollouts, lengths and how often tokens occur are shown. Add a field "
            "reward (a number) or correct (true, false or null)."
        )
        notes = [Note(True, "No rewards", text)]
    else:
        notes = [*_about_rewards(frame, missing)]
    known = ~np.isnan(frame.correct_b)
    if np.diff(frame.starts_g).max() < 2:
        title = "One rollout a prompt"
        text = (
            "Every group has one rollout: there is nothing to compare it with, so there is no "
            "credit. Rollouts of the same prompt need the same group, and at least two."
        )
        notes.append(Note(True, title, text))
    elif known.any() and not mixed_g.any():
        verdicts = np.unique(frame.correct_b[known])
        kind = {(1.0,): "right", (0.0,): "wrong"}.get(tuple(verdicts.tolist()))
        title = f"Every rollout is {kind}" if kind else "No group is mixed"
        text = (
            "Credit compares the right rollouts of a prompt with its wrong ones. Here no "
            "prompt has both, so all credit is 0; lengths and how often tokens occur are shown."
        )
        notes.append(Note(True, title, text))
    if dump.unit == "ids":
        text = "All values are computed. --tokenizer, a folder or a hub name, gives their text."
        notes.append(Note(True, "No tokenizer, so tokens have numbers and no text", text))
    # What is not in the dump of the files, and how their rows became rollouts and groups; but
    # rollouts without a reward are said above, with what that means for the page.
    for note in dump.notes:
        if note.key != "without_reward":
            notes.append(Note(note.severe, note.text[:1].upper() + note.text[1:], note.more))
    for name, number in frame.signals[1].items():
        title = f"{counted(number, 'rollout')} without {name.replace('_', '-')}"
        text = "What they hold is not a list of one number for each token id, so it is not shown."
        notes.append(Note(False, title, text))
    return sorted(notes, key=lambda note: not note.severe)


def _about_rewards(frame: Frame, missing: int) -> Iterator[Note]:
    n = len(frame.rollouts)
    if missing:
        yield Note(
            True,
            f"{missing:,} of {n:,} rollouts have no reward",
            "Their correctness is unknown: they are shown, left out of every table and of the mean "
            "reward, and have no credit.",
        )
    # Those without a reward were counted already.
    unknown = int(np.isnan(frame.correct_b).sum()) - missing
    if unknown > 0:
        yield Note(
            False,
            f"{unknown:,} of {n:,} rollouts have no verdict",
            "The verifier could not decide; they are left out of every table and have no credit, "
            "and never count as wrong.",
        )
    # A dump may have advantages for some rollouts only: another formula for the rest would mix two.
    without = int(np.isnan(frame.advantage_b).sum())
    if not frame.own_advantages:
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


def of_sample(
    shown_b: np.ndarray, shown_g: np.ndarray, max_tokens: int, max_groups: int | None
) -> Note:
    """What is in the page where not all groups are."""
    bound = "" if max_groups is None else f"{max_groups:,} groups and "
    return Note(
        False,
        f"{shown_b.sum():,} of {len(shown_b):,} rollouts are in this page",
        f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to "
        f"{bound}{max_tokens:,} tokens. {sampling.RULE} Overview, Tokens and Training are "
        "of all rollouts; what is searched and filtered is in the page.",
    )


def about_estimator(
    frame: Frame, estimator: Estimator, regrade: bool, lacks_policy: bool
) -> Iterator[Note]:
    """Whose credit the page shows, and who has graded."""
    dump = frame.dump
    if dump.trained:
        yield Note(False, "What the run was trained with", dump.trained)
    if lacks_policy:
        yield Note(
            True,
            "Not the credit of training",
            "The estimator weighs by the policy's log-probabilities or entropies, which the dump "
            f"does not hold. The page shows {to_text(estimator)}.",
        )
    elif estimator != in_tables(estimator):
        by = "" if in_tables(estimator) else ", by the paper's statistic"
        yield Note(
            False,
            "Tables are of single tokens",
            f"Shades and the cards of tokens are of {to_text(estimator)}. Tokens, p-values over "
            f"groups and permuted labels are of single tokens{by}.",
        )
    if (scorer := regrading.own_scorer(dump)) == "reasoning-gym":
        yield Note(False, "Not graded again", f"The verdicts are by {scorer}'s own scorer.")
    elif regrade and not regrading.can_grade() and any(regrading.references(frame)):
        yield Note(
            False,
            "Not graded again",
            "The dump holds reference answers, but math-verify is not installed, so its verdicts "
            "are not compared with ours. pip install 'ktae[eval]'",
        )
