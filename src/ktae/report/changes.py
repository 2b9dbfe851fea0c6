"""Over training: the step at which accuracy, length or the share cut off changed, beyond noise.

For each number the steps are cut in two where the means before and after differ most. The same is
done with the groups' values dealt anew to the steps; p is the share of deals that differ as much.
So the choice of the step is part of the test. Where the same prompts come again at other steps,
values are dealt within a prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.inference import holm
from ktae.report.data import Tone
from ktae.report.drafts import Draft, p_text, percent
from ktae.report.frame import Frame

DEALS = 1999
"""Random deals of a test; with the one seen, the smallest p is 1 in 2,000."""

LEVEL = 0.01
"""For all changes of a dump together (Holm). Below .05, as a page makes several kinds of claims."""

LEAST = {"accuracy": 0.02, "share cut off": 0.02, "response length": 0.05, "entropy": 0.05}
"""Smaller changes are not told: of the first two in all, of the others as a share of the mean."""


class Change(NamedTuple):
    """A number that was another one before a training step than from it on."""

    before: float
    after: float
    first: int
    """The first step of all, and the last one."""
    last: int
    until: int
    """The last step before the change, and the first one after it."""
    since: int
    at_last: float
    """The mean at the last step."""
    p: float


def changes(frame: Frame, finished_b: np.ndarray) -> Iterator[Draft]:
    """What changed in a run; of several inputs nothing is told."""
    if len(frame.dump.names) > 1:
        return
    step_g, sizes_g = frame.step_g, frame.sizes_g
    with np.errstate(invalid="ignore"):
        accuracy_g = frame.sum_rollouts(frame.correct_b == 1) / frame.sum_rollouts(frame.known_b)
    values = {
        "accuracy": accuracy_g,
        "response length": frame.sum_rollouts(frame.lengths_b) / sizes_g,
        "share cut off": frame.sum_rollouts(1 - finished_b) / sizes_g,
    }
    if "entropy" in frame.signals[0]:
        entropy_b = frame.sum_tokens(np.nan_to_num(frame.signals[0]["entropy"]))
        tokens_g = np.maximum(frame.sum_rollouts(frame.lengths_b), 1)
        values["entropy"] = frame.sum_rollouts(entropy_b) / tokens_g
    tested = dict[str, Change]()
    for name, values_g in values.items():
        usable = (step_g >= 0) & np.isfinite(values_g)
        arrays = (values_g[usable], step_g[usable], frame.origins.prompt_g[usable])
        if (change := largest_change(*arrays)) is not None:
            tested[name] = change
    corrected = holm([change.p for change in tested.values()])
    for (name, change), p in zip(tested.items(), corrected, strict=True):
        scale = 1.0
        if name in ("response length", "entropy"):
            scale = max(abs(change.before), abs(change.after))
        if p < LEVEL and abs(change.after - change.before) >= LEAST[name] * scale:
            yield _draft(name, change, p, f"{frame.dump.word}s")


def _draft(name: str, change: Change, p: float, unit: str) -> Draft:
    def number(x: float) -> str:
        if name in ("accuracy", "share cut off"):
            return percent(x)
        return f"{x:,.0f} {unit}" if name == "response length" else f"{x:.3g}"

    verb = "rose" if change.after > change.before else "fell"
    is_bad = (name, verb) in (("accuracy", "fell"), ("share cut off", "rose"))
    tone: Tone = "bad" if is_bad else "good" if name == "accuracy" else "plain"
    until, since = (
        f"step {x:,}" if x == y else f"steps {x:,} to {y:,}"
        for x, y in ((change.first, change.until), (change.since, change.last))
    )
    title = f"{name.capitalize()} {verb}"
    return Draft(
        *(f"{name.replace(' ', '-')}-{verb}", tone, title),
        f"{title} from {number(change.before)} ({until}) to {number(change.after)} ({since})",
        f"{p_text(p)} over groups dealt anew to the steps; most likely at step {change.since:,}",
        f"At the last step it is {number(change.at_last)}. Read responses from before and after.",
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
        sizes: np.ndarray = np.abs(np.cumsum(np.bincount(place, rest))[:-1]) * weight
        return sizes

    seen = differences(rest)
    cut = int(np.argmax(seen))
    rng, as_far = np.random.default_rng(0), 1
    order = np.argsort(prompt, kind="stable")
    for _ in range(DEALS):
        dealt = np.empty_like(rest)
        dealt[order] = rest[np.lexsort((rng.random(len(rest)), prompt))]
        as_far += differences(dealt).max() >= seen[cut] * (1 - 1e-9)
    before = place <= cut
    return Change(
        float(values[before].mean()),
        float(values[~before].mean()),
        *(int(distinct[0]), int(distinct[-1]), int(distinct[cut]), int(distinct[cut + 1])),
        float(values[place == len(distinct) - 1].mean()),
        as_far / (DEALS + 1),
    )
