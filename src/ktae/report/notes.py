"""What a page can and cannot say about a dump, as notes like those of the readers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktae.report import regrading, sampling
from ktae.report.frame import Frame
from ktae.rollouts.notes import Note

SAID_OTHERWISE = {"without_reward"}
"""Notes of the reader that the page says in its own words."""

OF_JOINING = {"apart", "models", "pooled"}
"""Notes that propose to put groups together, which is no advice where runs are compared."""


def notes_of(frame: Frame, graded: regrading.Graded | None, is_gradable: bool) -> list[Note]:
    """All notes about a dump but those of its sample, the severe ones first."""
    skipped = SAID_OTHERWISE | (OF_JOINING if frame.origins.inputs else set())
    notes = [*_about_rewards(frame, graded), *_about_tokens(frame)]
    notes += [note for note in frame.dump.notes if note.key not in skipped]
    if frame.sizes_g.max() < 2:
        text = "There is nothing to compare it with. Credit needs several responses to a prompt."
        severe = not frame.origins.inputs
        notes.append(_note("one-response", "one response a prompt", text, severe=severe))
    if is_gradable and not regrading.can_grade():
        text = "That needs math-verify, which is not installed. pip install 'ktae[eval]'"
        notes.append(_note("no-grader", "not graded again", text))
    return sorted(notes, key=lambda note: not note.severe)


def _note(key: str, text: str, more: str, n: int = 1, *, severe: bool = False) -> Note:
    return Note(key, "page", text, more, n, severe, ())


def _about_rewards(frame: Frame, graded: regrading.Graded | None) -> Iterator[Note]:
    n, missing = len(frame.reward_b), int(np.isnan(frame.reward_b).sum())
    unknown = int((~frame.known_b).sum()) - missing
    if graded and graded.is_verdict:
        done = len(graded.verdicts)
        text = "The dump has references and no rewards; the verdicts are those of ktae's grader."
        yield _note("graded", f"{done:,} responses were graded here", text, done)
    elif missing == n:
        text = "Nothing can be compared. Add a field reward (a number), correct (true, false or "
        yield _note("no-rewards", "no rewards", f"{text}null) or answer.", n, severe=True)
    elif missing:
        text = "They are shown, and left out of every table and mean; they have no credit."
        title = f"{missing:,} of {n:,} responses have no reward"
        yield _note("without-reward", title, text, missing, severe=True)
    if graded and not graded.is_verdict:
        graded_n = len(graded.verdicts)
        text = f"{graded_n:,} of {graded.gradable:,} responses with a reference answer were graded"
        text += "." if graded.differ else ", and all verdicts agree."
        if undecided := sum(x.correct is None for x in graded.verdicts.values()):
            text += f" {undecided:,} could not be decided, as when the time ran out."
        yield _note("graded-again", "graded again", text, graded_n)
    if unknown > 0 and not (graded and graded.is_verdict):
        text = "The verifier could not decide: they are in no table and never count as incorrect."
        title = f"{unknown:,} of {n:,} responses have no verdict"
        yield _note("without-verdict", title, text, unknown)
    if not frame.own_advantages and missing < n:
        text = "(reward - mean) / (standard deviation + 1e-6) over the rewarded ones of a group."
        yield _note("grpo-advantages", "rollout advantages are GRPO's", text)


def _about_tokens(frame: Frame) -> Iterator[Note]:
    if frame.dump.unit == "ids":
        text = "All values are computed. --tokenizer, a folder or a hub name, gives their text."
        title = "no tokenizer, so tokens have numbers and no text"
        yield _note("ids", title, text, severe=True)


def of_sample(shown_g: np.ndarray, sizes_g: np.ndarray, max_tokens: int) -> Iterator[Note]:
    """What is in the page where not all groups are."""
    if not shown_g.all():
        n, shown = int(sizes_g.sum()), int(sizes_g[shown_g].sum())
        text = (
            f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to {max_tokens:,} "
            f"tokens. {sampling.RULE} Overview, Tokens and Training are of all responses; what is "
            "searched and filtered is in the page."
        )
        yield _note("sample", f"{shown:,} of {n:,} responses are in this page", text, shown)
