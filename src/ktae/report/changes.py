"""Over training: where accuracy, length, entropy or the share cut off changed, beyond noise.

For each number the steps are cut in two where the means before and after differ most. The same is
done with the groups' values dealt anew to the steps; p is the share of deals that differ as much.
So the choice of the step is part of the test. Where the same prompts come again at other steps,
values are dealt within a prompt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.inference import holm
from ktae.report.data import Finding, Tone, p_text, percent
from ktae.report.frame import Frame, json_fields

DEALS = 1999  # random deals of a test; with the one seen, the smallest p is 1 in 2,000
LEVEL = 0.01  # for all changes of a dump (Holm): below .05, as a page makes several kinds of claims
SHARES = ("accuracy", "share cut off")
LEAST_SHARE, LEAST = 0.02, 0.05  # smaller ones are not told; of other numbers as a share of them


class Change(NamedTuple):
    """A number that was another one before a training step than from it on."""

    before: float
    after: float
    steps: tuple[int, int, int, int]  # the first, those beside the change, and the last
    at_last: float  # the mean at the last step
    p: float


def changes(frame: Frame, finished_b: np.ndarray) -> Iterator[Finding]:
    """What changed in a run; of several inputs nothing is told."""
    if frame.origins.inputs:
        return
    step_g, sizes_g = frame.step_g, frame.sizes_g
    with np.errstate(invalid="ignore"):
        accuracy_g = frame.sum_rollouts(frame.correct_b == 1) / frame.sum_rollouts(frame.known_b)
    entropy_b = np.full(len(frame.lengths_b), np.nan)  # the mean of a rollout's field `entropy`
    for row, fields in json_fields(frame.rollouts["extra"], ("entropy",)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            entropy_t = np.array(fields.get("entropy"), float)
            entropy_b[row] = entropy_t.mean() if entropy_t.size else np.nan
    values = {
        "accuracy": accuracy_g,
        "response length": frame.sum_rollouts(frame.lengths_b) / sizes_g,
        "share cut off": frame.sum_rollouts(1 - finished_b) / sizes_g,
        "entropy": frame.sum_rollouts(entropy_b) / sizes_g,
    }
    tested = dict[str, Change]()
    for name, values_g in values.items():
        usable = (step_g >= 0) & np.isfinite(values_g)
        arrays = (values_g[usable], step_g[usable], frame.origins.prompt_g[usable])
        if (change := largest_change(*arrays)) is not None:
            tested[name] = change
    corrected = holm([change.p for change in tested.values()])
    for (name, change), p in zip(tested.items(), corrected, strict=True):
        largest = max(abs(change.before), abs(change.after))
        least = LEAST_SHARE if name in SHARES else LEAST * largest
        if p < LEVEL and abs(change.after - change.before) >= least:
            yield _finding(name, change, p, f"{frame.dump.word}s")


def _finding(name: str, change: Change, p: float, unit: str) -> Finding:
    numbers = change.before, change.after, change.at_last
    before, after, at_last = (percent(x) if name in SHARES else f"{x:.3g}" for x in numbers)
    if name == "response length":
        before, after, at_last = (f"{x:,.0f} {unit}" for x in numbers)
    verb = "rose" if change.after > change.before else "fell"
    is_bad = (name, verb) in (("accuracy", "fell"), ("share cut off", "rose"))
    tone: Tone = "bad" if is_bad else "good" if name == "accuracy" else "plain"
    steps_before, steps_after = (
        f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
        for first, last in (change.steps[:2], change.steps[2:])
    )
    title = f"{name.capitalize()} {verb}"
    return Finding(
        *(f"{name.replace(' ', '-')}-{verb}", tone, title),
        f"{title} from {before} ({steps_before}) to {after} ({steps_after})",
        f"{p_text(p)} over groups dealt anew to the steps; most likely at step {change.steps[2]:,}",
        f"At the last step it is {at_last}. Read responses from before and after.",
        link={"view": "training"},
    )


def largest_change(values: np.ndarray, steps: np.ndarray, prompts: np.ndarray) -> Change | None:
    """The cut between two steps where (n,) values differ most, and its p; None: nothing to test."""
    distinct, place = np.unique(steps, return_inverse=True)
    if len(distinct) < 2 or len(values) < 6 or not np.ptp(values):
        return None
    # Where prompts come again, what a prompt is like is taken out, and dealt within it.
    _, prompt, times = np.unique(prompts, return_inverse=True, return_counts=True)
    if (times[prompt] < 2).any():
        prompt = np.zeros(len(values), dtype=np.int64)
    rest = values - (np.bincount(prompt, values) / np.bincount(prompt))[prompt]
    n_before = np.cumsum(np.bincount(place))[:-1]
    weight = np.sqrt(len(values) / (n_before * (len(values) - n_before)))

    def differences(rest: np.ndarray) -> np.ndarray:
        # Values sum to 0, so the sum before a cut says all.
        return np.abs(np.cumsum(np.bincount(place, rest))[:-1]) * weight

    seen = differences(rest)
    cut = int(np.argmax(seen))
    rng, as_far = np.random.default_rng(0), 1
    order = np.argsort(prompt, kind="stable")
    for _ in range(DEALS):
        dealt = np.empty_like(rest)
        dealt[order] = rest[np.lexsort((rng.random(len(rest)), prompt))]
        as_far += differences(dealt).max() >= seen[cut] * (1 - 1e-9)
    parts = (place <= cut, place > cut, place == len(distinct) - 1)
    before, after, at_last = (float(values[part].mean()) for part in parts)
    first, until, since, last = distinct[[0, cut, cut + 1, -1]].tolist()
    return Change(before, after, (first, until, since, last), at_last, as_far / (DEALS + 1))
