"""What a page can and cannot say about a dump, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktae.files.text import counted
from ktae.report import regrading, sampling
from ktae.report.believing import Choice
from ktae.report.data import Note
from ktae.report.frame import Frame

SAID_OTHERWISE = {"without_reward"}
"""Notes of the reader that the page says in its own words."""

OF_JOINING = {"apart", "models", "pooled"}
"""Notes that propose to put groups together, which is no advice where models are compared."""


def notes_of(
    frame: Frame, mixed_g: np.ndarray, graded: regrading.Graded | None, choice: Choice
) -> list[Note]:
    """All notes about a dump, the severe ones first; `choice`: whose credit the page shows."""
    dump = frame.dump
    notes = [*_about_rewards(frame, graded), *_about_groups(frame, mixed_g)]
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
    notes += _about_training(frame, choice)
    return sorted(notes, key=lambda note: not note.severe)


def _about_rewards(frame: Frame, graded: regrading.Graded | None) -> Iterator[Note]:
    n, missing = len(frame.reward_b), int(np.isnan(frame.reward_b).sum())
    unknown = int((~frame.known_b).sum()) - missing
    without = int(np.isnan(frame.advantage_b).sum())
    if graded and graded.is_verdict:
        done = len(graded.verdicts)
        text = "The dump has references and no rewards; the verdicts are those of ktae's grader."
        yield Note("graded", False, f"{done:,} responses were graded here", text, done)
    elif missing == n:
        text = "Nothing can be compared. Add a field reward (a number), correct (true, false or "
        yield Note("no-rewards", True, "No rewards", f"{text}null) or answer.", missing)
    elif missing:
        text = "They are shown, and left out of every table and mean; they have no credit."
        title = f"{missing:,} of {n:,} responses have no reward"
        yield Note("without-reward", True, title, text, missing)
    if unknown > 0 and not (graded and graded.is_verdict):
        text = "The verifier could not decide: they are in no table and never count as incorrect."
        title = f"{unknown:,} of {n:,} responses have no verdict"
        yield Note("without-verdict", False, title, text, unknown)
    if not frame.own_advantages and missing < n:
        text = (
            "(reward - mean) / (standard deviation + 1e-6) over the rewarded responses of a group."
        )
        yield Note("grpo-advantages", False, "Rollout advantages are GRPO's", text)
    # A dump may have advantages for some only: another formula for the others would mix two.
    elif frame.own_advantages and without:
        title = f"{without:,} of {n:,} responses have no advantage"
        yield Note("without-advantage", False, title, "The others' are the dump's.", without)


def _about_groups(frame: Frame, mixed_g: np.ndarray) -> Iterator[Note]:
    if frame.sizes_g.max() < 2:
        text = "There is nothing to compare it with. Credit needs several responses to a prompt."
        is_severe = len(frame.dump.names) < 2
        yield Note("one-response", is_severe, "One response a prompt", text)
    elif frame.known_b.any() and not mixed_g.any():
        text = "Credit compares the correct responses of a prompt with its incorrect ones: it is 0."
        yield Note("not-mixed", True, "No group is mixed", text)


def _about_training(frame: Frame, choice: Choice) -> Iterator[Note]:
    """Whose credit the page shows."""
    if choice.lacks_policy:
        text = f"That needs the policy's probabilities. The page shows {choice.name}."
        yield Note("no-policy", True, "Not the credit of training", text)


def about_grading(
    frame: Frame, graded: regrading.Graded | None, has_references: bool
) -> Iterator[Note]:
    """Whose verdicts these are, and what grading again has shown."""
    if has_references and not regrading.can_grade():
        text = "That needs math-verify, which is not installed. pip install 'ktae[eval]'"
        yield Note("no-grader", False, "Not graded again", text)
    elif graded and not graded.is_verdict:
        n = len(graded.verdicts)
        text = f"{n:,} of {graded.gradable:,} responses with a reference answer were graded"
        text += "." if graded.differ else ", and all verdicts agree."
        if undecided := sum(x.correct is None for x in graded.verdicts.values()):
            text += f" {undecided:,} could not be decided, as when the time ran out."
        yield Note("graded-again", False, "Graded again", text, n)


def of_sample(shown_g: np.ndarray, sizes_g: np.ndarray, max_tokens: int) -> Iterator[Note]:
    """What is in the page where not all groups are."""
    if shown_g.all():
        return
    n, shown = int(sizes_g.sum()), int(sizes_g[shown_g].sum())
    text = (
        f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to {max_tokens:,} "
        f"tokens. {sampling.RULE} Overview, Tokens and Training are of all responses; what is "
        "searched and filtered is in the page."
    )
    yield Note("sample", False, f"{shown:,} of {n:,} responses are in this page", text, shown)
