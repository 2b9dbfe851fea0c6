"""The numbers of a dump: tiles with their distributions, lines over training steps, and notes."""

from __future__ import annotations

import itertools

import numpy as np

from ktae.files.text import counted
from ktae.report import regrading
from ktae.report.data import Bar, Tile, percent
from ktae.report.frame import Frame
from ktae.rollouts.notes import Note, Notes

BINS = 20  # of a histogram
KINDS = {"incorrect": " incorrect", "correct": " correct", "plain": ""}  # of bars, bottom up
SAID_OTHERWISE = {"without_reward"}  # notes of the reader that the page says in its own words
OF_JOINING = {"apart", "models", "pooled"}  # they propose what is no advice for several runs


def tiles(frame: Frame) -> list[Tile]:
    """Responses by reward, groups by accuracy, responses by length, and mixed groups."""
    known_g, correct_g = map(frame.sum_rollouts, (frame.known_b, frame.correct_b == 1))
    n_mixed = int(((correct_g > 0) & (correct_g < known_g)).sum())
    n_none = int(((correct_g == 0) & (known_g > 0)).sum())
    n_all = int(((correct_g == known_g) & (known_g > 0)).sum())
    others = f"no credit: {n_none:,} all incorrect, {n_all:,} all correct"
    mixed = Tile(f"{n_mixed:,}", "mixed groups", others)
    return [responses(frame), groups(known_g, correct_g), accuracy(frame), mixed]


def responses(frame: Frame) -> Tile:
    """The responses by reward, with a bin for each value where there are few."""
    reward_b = frame.reward_b[~np.isnan(frame.reward_b)]
    values, place = np.unique(reward_b, return_inverse=True)
    ranges = [(x, x) for x in values.tolist()]
    if len(values) > BINS:
        edges = np.linspace(values[0], values[-1], BINS + 1)
        place = np.clip(np.searchsorted(edges, reward_b, side="right") - 1, 0, BINS - 1)
        ranges = [*itertools.pairwise(edges.tolist())]
    ends = (f"{values[0]:.3g}", f"{values[-1]:.3g}") if len(values) else ("", "")
    texts = f"{len(frame.group_b):,}", "responses", counted(len(frame.which_n), frame.dump.word)
    bars = _bars("reward", place, ranges, np.full(len(place), "plain"))
    return Tile(*texts, "by reward", ends, bars)


def groups(known_g: np.ndarray, correct_g: np.ndarray) -> Tile:
    """The groups by accuracy, in one bin more than a group has responses, at most `BINS`."""
    last = int(min(BINS - 1, max(1, known_g.max())))
    known = known_g > 0
    place = np.round(correct_g[known] / known_g[known] * last).astype(np.int64)
    kinds = np.where(place == 0, "incorrect", np.where(place == last, "correct", "plain"))
    ranges = [(max(0, (i - 0.5) / last), min(1, (i + 0.5) / last)) for i in range(last + 1)]
    texts = f"{len(known_g):,}", "groups", "prompts with their responses"
    bars = _bars("accuracy", place, ranges, kinds)
    return Tile(*texts, "by accuracy", ("0 %", "100 %"), bars)


def accuracy(frame: Frame) -> Tile:
    """Accuracy, and lengths up to the 99 % quantile; longer responses are in the last bin."""
    lengths, correct = frame.lengths_b[frame.known_b], frame.correct_b[frame.known_b] == 1
    n, longest, texts = len(lengths), float(BINS), ("–", "accuracy", "no rewards")
    if n:
        number = f"{correct.sum():,} of {n:,} correct"
        longest = max(BINS, float(np.quantile(lengths, 0.99)))
        texts = percent(correct.mean()), "accuracy", number
    edges = np.linspace(0, longest, BINS + 1).round().astype(int)
    place = np.clip(np.searchsorted(edges, lengths, side="right") - 1, 0, BINS - 1)
    ranges = [(low, high - 1) for low, high in itertools.pairwise(edges.tolist())]
    ranges[-1] = (ranges[-1][0], 1e9)
    bars = _bars("length", place, ranges, np.where(correct, "correct", "incorrect"))
    caption = f"{frame.dump.word}s of correct and incorrect responses"
    return Tile(*texts, caption, ("0", f"{edges[-1]:,}+"), bars)


def _bars(
    name: str, place: np.ndarray, ranges: list[tuple[float, float]], kinds: np.ndarray
) -> list[Bar]:
    """A bar for each range, with a link to the values in it, whose `place` it is."""
    n = {x: np.bincount(place[kinds == x], minlength=len(ranges)).tolist() for x in KINDS}
    bars = list[Bar]()
    for i, (low, high) in enumerate(ranges):
        span = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        counts = ", ".join(f"{n[x][i]:,}{KINDS[x]}" for x in KINDS if n[x][i]) or "0"
        link = {"view": "rollouts", name: [round(low, 4), round(high, 4)]}
        bars.append(([(n[x][i], x) for x in KINDS], f"{name} {span}: {counts}", link))
    return bars


def charts(frame: Frame) -> dict[str, list[tuple[str, list[int], list[float]]]]:
    """Numbers over training steps, for each of several inputs: its name, steps and values.

    A run of fewer than two steps has no line.
    """
    inputs, step_b = frame.origins.inputs, frame.step_g[frame.group_b]
    input_b = frame.origins.input_g[frame.group_b]
    sums = {
        "accuracy": (frame.correct_b, frame.known_b),
        "response length": (frame.lengths_b, np.ones(len(step_b))),
        "reward": (frame.reward_b, ~np.isnan(frame.reward_b)),
    }
    lines = dict[str, list[tuple[str, list[int], list[float]]]]()
    for run in np.unique(input_b).tolist():
        rows = np.flatnonzero((input_b == run) & (step_b >= 0))
        steps, place = np.unique(step_b[rows], return_inverse=True)
        if len(steps) < 2:
            continue
        for name, (values_b, number_b) in sums.items():
            n = np.bincount(place, number_b[rows])
            total = np.bincount(place, np.nan_to_num(values_b[rows]))
            if (has := n > 0).any():
                values = (total[has] / n[has]).tolist()
                line = inputs[run] if inputs else "", steps[has].tolist(), values
                lines.setdefault(name, []).append(line)
    return lines


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
