"""What a page can and cannot say about a dump, beside what its reader has noted."""

from __future__ import annotations

import numpy as np

from ktae.report import regrading
from ktae.report.frame import Frame
from ktae.rollouts.notes import Note, Notes

SAID_OTHERWISE = {"without_reward"}  # notes of the reader that the page says in its own words
OF_JOINING = {"apart", "models", "pooled"}  # they propose what is no advice for several runs


def notes_of(
    frame: Frame, graded: regrading.Graded | None, is_gradable: bool, shown_g: np.ndarray
) -> list[Note]:
    """All notes about a dump, of which the page shows some groups; the severe ones first."""
    notes, n = Notes(), len(frame.reward_b)
    missing = int(np.isnan(frame.reward_b).sum())
    unknown = int((~frame.known_b).sum()) - missing
    is_ours, n_graded = bool(graded and graded.is_verdict), len(graded.verdicts) if graded else 0
    counts = {
        "sample": int(frame.sizes_g[shown_g].sum()) * (not shown_g.all()),
        "graded_here": n_graded * is_ours,
        "graded_again": n_graded * (not is_ours),
        "without_rewards": missing * (missing == n and not is_ours),
        "without_some_rewards": missing * (missing < n),
        "without_verdict": max(0, unknown) * (not is_ours),
        "not_graded": n * (is_gradable and not regrading.can_grade()),
        "alone_in_group": n * bool(frame.sizes_g.max() < 2 and not frame.origins.inputs),
        "without_text": n * (frame.dump.unit == "ids"),
    }
    for key, count in counts.items():
        if count:
            notes.add(key, f"{count:,} of {n:,}", count)
    skipped = SAID_OTHERWISE | (OF_JOINING if frame.origins.inputs else set())
    listed = [*notes, *(note for note in frame.dump.notes if note.key not in skipped)]
    return sorted(listed, key=lambda note: not note.severe)
