"""What a page can and cannot say about a dump, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktae.estimators import to_text
from ktae.files.text import counted
from ktae.report import regrading, sampling
from ktae.report.believing import Choice
from ktae.report.data import Note
from ktae.report.frame import Frame

SAID_OTHERWISE = {"without_reward"}
"""Notes of the reader that the page says in its own words."""

OF_JOINING = {"apart", "models", "pooled"}
"""Notes that propose to put groups together, which is no advice where models are compared."""


def notes_of(frame: Frame, mixed_g: np.ndarray, graded: int) -> list[Note]:
    """All notes about a dump, the severe ones first.

    `graded`: how many responses have their verdict from our grader alone.
    """
    dump, notes = frame.dump, list[Note]()
    missing = int(np.isnan(frame.reward_b).sum())
    if graded:
        text = (
            "The dump holds reference answers and no rewards, so ktae's grader gave the verdicts: "
            "1 for a correct response, 0 for any other."
        )
        notes.append(Note("graded", False, f"{graded:,} responses were graded here", text, graded))
    elif missing == len(frame.reward_b):
        text = (
            "No row has a reward, a verdict or a reference answer, so nothing can be compared: "
            "there is no credit and no p-values. Add a field reward (a number), correct (true, "
            "false or null) or answer."
        )
        notes.append(Note("no-rewards", True, "No rewards", text, missing))
    else:
        notes += _about_rewards(frame, missing)
    notes += _about_groups(frame, mixed_g)
    if dump.unit == "ids":
        title = "No tokenizer, so tokens have numbers and no text"
        text = "All values are computed. --tokenizer, a folder or a hub name, gives their text."
        notes.append(Note("ids", True, title, text))
    # What was not used of the files, and how their rows became rollouts and groups.
    skipped = SAID_OTHERWISE | (OF_JOINING if len(dump.names) > 1 else set())
    for note in dump.notes:
        if note.key not in skipped:
            title = note.text[:1].upper() + note.text[1:]
            notes.append(Note(note.key, note.severe, title, note.more, note.n))
    for name, number in frame.signals[1].items():
        title = f"{counted(number, 'response')} without {name.replace('_', '-')}"
        text = "What they hold is not a list of one number for each token id, so it is not shown."
        notes.append(Note(f"no-{name}", False, title, text, number))
    return sorted(notes, key=lambda note: not note.severe)


def _about_groups(frame: Frame, mixed_g: np.ndarray) -> Iterator[Note]:
    known = ~np.isnan(frame.correct_b)
    if np.diff(frame.starts_g).max() < 2:
        text = (
            "Every group has one response: there is nothing to compare it with, so there is no "
            "credit. Credit needs two or more responses to the same prompt."
        )
        yield Note("one-response", len(frame.dump.names) < 2, "One response a prompt", text)
    elif known.any() and not mixed_g.any():
        kind = {1.0: "correct", 0.0: "incorrect"}
        verdicts = np.unique(frame.correct_b[known]).tolist()
        title = "No group is mixed"
        if len(verdicts) == 1:
            title = f"Every response is {kind[verdicts[0]]}"
        text = (
            "Credit compares the correct responses of a prompt with its incorrect ones. Here no "
            "prompt has both, so all credit is 0; lengths and how often tokens occur are shown."
        )
        yield Note("not-mixed", True, title, text)


def _about_rewards(frame: Frame, missing: int) -> Iterator[Note]:
    n = len(frame.rollouts)
    if missing:
        yield Note(
            "without-reward",
            True,
            f"{missing:,} of {n:,} responses have no reward",
            "Their correctness is unknown: they are shown, left out of every table and of the mean "
            "reward, and have no credit.",
            missing,
        )
    # Those without a reward were counted already.
    unknown = int(np.isnan(frame.correct_b).sum()) - missing
    if unknown > 0:
        yield Note(
            "without-verdict",
            False,
            f"{unknown:,} of {n:,} responses have no verdict",
            "The verifier could not decide; they are left out of every table and have no credit, "
            "and never count as incorrect.",
            unknown,
        )
    # A dump may have advantages for some rollouts only: another formula for the rest would mix two.
    without = int(np.isnan(frame.advantage_b).sum())
    if not frame.own_advantages:
        yield Note(
            "grpo-advantages",
            False,
            "Rollout advantages are computed here",
            "The dump holds none, so they are GRPO's: (reward - mean) / (standard deviation + "
            "1e-6) over the responses of the group that have a reward.",
        )
    elif without:
        yield Note(
            "without-advantage",
            False,
            f"{without:,} of {n:,} responses have no advantage",
            "The others' are the dump's. By which formula it got them is not known, so none is "
            "computed in the place of those that it lacks.",
            without,
        )


def of_sample(
    shown_b: np.ndarray, shown_g: np.ndarray, max_tokens: int, max_groups: int | None
) -> Note:
    """What is in the page where not all groups are."""
    bound = "" if max_groups is None else f"{max_groups:,} groups and "
    return Note(
        "sample",
        False,
        f"{shown_b.sum():,} of {len(shown_b):,} responses are in this page",
        f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to "
        f"{bound}{max_tokens:,} tokens. {sampling.RULE} Overview, Tokens and Training are "
        "of all responses; what is searched and filtered is in the page.",
        int(shown_b.sum()),
    )


def about_estimator(frame: Frame, choice: Choice, regrade: bool) -> Iterator[Note]:
    """Whose credit the page shows, and who has graded."""
    dump = frame.dump
    if dump.trained:
        trained = dump.estimator
        text = dump.trained
        if trained is not None and trained != choice.estimator and not choice.lacks_policy:
            text += (
                f" This page is coloured by {choice.name}; -e {to_text(trained)} shows the "
                "credit of training."
            )
        yield Note("trained", False, "What the run was trained with", text)
    if choice.lacks_policy:
        yield Note(
            "no-policy",
            True,
            "Not the credit of training",
            "The estimator weighs by the policy's log-probabilities or entropies, which the dump "
            f"does not hold. The page shows {choice.name}.",
        )
    if dump.grader is not None:
        text = f"The verdicts are by {dump.grader}'s own scorer."
        yield Note("own-scorer", False, "Not graded again", text)
    elif regrade and not regrading.can_grade() and any(regrading.references(frame)):
        yield Note(
            "no-grader",
            False,
            "Not graded again",
            "The dump holds reference answers, but math-verify is not installed, so its verdicts "
            "are not compared with ours. pip install 'ktae[eval]'",
        )
