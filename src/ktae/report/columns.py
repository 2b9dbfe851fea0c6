"""A dump as NumPy columns: rollouts in the order of their groups, tokens flat with offsets."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ktae.report.inputs import Dump
from ktae.rollout_advantages import rollout_advantages
from ktae.rollouts.groups import arrays_of, group_codes, masks_of, take_rows

SIGNALS = {
    "log_prob": ("log_probs", "logprobs", "old_log_probs", "rollout_log_probs"),
    "entropy": ("entropy", "entropies", "old_entropies"),
}
"""Names that a dump may give to a list of one number a token (natural logarithm, nats)."""

TOKENS_AT_ONCE = 1 << 22
"""Tokens of the groups that are worked on at a time; a single group above that is taken whole."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """B rollouts in G groups, without their tokens; the rollouts of a group are neighbours."""

    rollouts: Any
    """The record, in the dump's order."""
    order_b: np.ndarray
    """(B,) int64 each rollout's row of the record."""
    group_b: np.ndarray
    """(B,) int64, ascending: groups by first appearance in the dump."""
    starts_g: np.ndarray
    """(G + 1,) where each group's rollouts begin."""
    labels: list[str]
    """Each group's label."""
    steps: list[int | None]
    """Each group's training step."""
    correct_b: np.ndarray
    """(B,) float64: 1, 0, NaN for unknown."""
    reward_b: np.ndarray
    """(B,) float64; NaN where there is none, which is no reward of 0."""
    advantage_b: np.ndarray
    """(B,) float64 rollout advantages, the dump's own or, where it holds none at all, GRPO's; NaN
    where a rollout has neither."""
    own_advantages: bool
    """Whether the advantages are the dump's own."""
    lengths_b: np.ndarray
    """(B,) int64 tokens of each rollout, masked ones included."""
    counted_b: np.ndarray
    """(B,) int64 those that are not masked."""

    def sum_rollouts(self, values_b: np.ndarray) -> np.ndarray:
        """(G,) each group's sum of a value per rollout."""
        totals_g: np.ndarray = np.bincount(self.group_b, values_b, minlength=len(self.labels))
        return totals_g

    def ids(self, row: int) -> np.ndarray:
        """The token ids of one rollout."""
        return self._lists[int(self.order_b[row])]

    def texts_of(self, name: str) -> list[str | None]:
        """A column of text, for all rollouts."""
        texts = self.rollouts[name].to_pylist()
        return [texts[row] for row in self.order_b.tolist()]

    def of_groups(self, name: str) -> list[str | None]:
        """A column of text, for the first rollout of each group."""
        column = self.rollouts.select([name])
        texts: list[str | None] = take_rows(column, self.order_b[self.starts_g[:-1]])[
            name
        ].to_pylist()
        return texts

    def record_of(self, rows: np.ndarray) -> Any:
        """The record of some rollouts."""
        return take_rows(self.rollouts, self.order_b[rows])

    def columns(self, groups: np.ndarray) -> Columns:
        """Some groups with their tokens, in ascending order."""
        spans = zip(self.starts_g[groups].tolist(), self.starts_g[groups + 1].tolist(), strict=True)
        rows = np.concatenate([np.zeros(0, dtype=int), *(np.arange(*span) for span in spans)])
        sizes = np.diff(self.starts_g)[groups]
        rollouts, lengths_b = self.record_of(rows), self.lengths_b[rows]
        offsets_b = np.concatenate([[0], np.cumsum(lengths_b)])
        mask_n = np.ones(offsets_b[-1], dtype=bool)
        for row, mask in enumerate(masks_of(rollouts)):
            if mask is not None:
                mask_n[offsets_b[row] : offsets_b[row + 1]] = mask
        return Columns(
            rollouts,
            np.arange(len(rows)),
            np.repeat(np.arange(len(groups)), sizes),
            np.concatenate([[0], np.cumsum(sizes)]),
            [self.labels[group] for group in groups.tolist()],
            [self.steps[group] for group in groups.tolist()],
            self.correct_b[rows],
            self.reward_b[rows],
            self.advantage_b[rows],
            self.own_advantages,
            lengths_b,
            self.counted_b[rows],
            offsets_b,
            np.concatenate([np.zeros(0, dtype=np.int64), *arrays_of(rollouts["token_ids"])]),
            mask_n,
        )

    def parts(self) -> Iterator[tuple[slice, slice, Columns]]:
        """All groups with their tokens, some at a time: which groups, which rollouts."""
        # As many whole groups as have room, and at least one.
        ends_g = np.cumsum(self.sum_rollouts(self.lengths_b))
        begin, n = 0, len(self.labels)
        while begin < n:
            before = ends_g[begin - 1] if begin else 0
            end = int(np.searchsorted(ends_g, before + TOKENS_AT_ONCE, side="right"))
            end = min(n, max(begin + 1, end))
            rows = slice(int(self.starts_g[begin]), int(self.starts_g[end]))
            yield slice(begin, end), rows, self.columns(np.arange(begin, end))
            begin = end

    @functools.cached_property
    def _lists(self) -> list[np.ndarray]:
        return arrays_of(self.rollouts["token_ids"])

    @functools.cached_property
    def signals_found(self) -> tuple[list[str], dict[str, int]]:
        """The signals that some rollout has, one number a token; and how many rollouts hold
        something else under such a name, which is left out."""
        names, misaligned = set(), dict[str, int]()
        # The lengths in the order of the record, in which `extra` stands.
        lengths_b = np.empty_like(self.lengths_b)
        lengths_b[self.order_b] = self.lengths_b
        for row, name, values in _lists(self.rollouts["extra"]):
            if values is None or len(values) != lengths_b[row]:
                misaligned[name] = misaligned.get(name, 0) + 1
            else:
                names.add(name)
        return sorted(names), misaligned


@dataclasses.dataclass(frozen=True)
class Columns(Frame):
    """Groups with their N tokens. The record is in their order."""

    offsets_b: np.ndarray
    """(B + 1,) where each rollout's tokens begin."""
    ids_n: np.ndarray
    """(N,) int64 token ids."""
    mask_n: np.ndarray
    """(N,) bool: which tokens count."""

    def sum_tokens(self, values_n: np.ndarray) -> np.ndarray:
        """(B,) float64 each rollout's sum of a value per token, whatever stands beside it."""
        totals_b = np.zeros(len(self.lengths_b))
        some = np.flatnonzero(self.lengths_b)
        if len(some):
            # `reduceat` takes the next value where a rollout has no tokens, so those are left out.
            values_n = values_n.astype(np.float64)
            totals_b[some] = np.add.reduceat(values_n, self.offsets_b[some])
        return totals_b

    @functools.cached_property
    def signals(self) -> dict[str, np.ndarray]:
        """(N,) float32, NaN where a rollout has none: `log_prob` and `entropy`, where the dump
        does."""
        signals: dict[str, np.ndarray] = {}
        for row, name, values in _lists(self.rollouts["extra"]):
            start, stop = self.offsets_b[row], self.offsets_b[row + 1]
            if values is not None and len(values) == stop - start:
                empty = np.full(self.offsets_b[-1], np.nan, dtype=np.float32)
                signals.setdefault(name, empty)[start:stop] = values
        return signals

    def as_dict(self) -> dict[str, Any]:
        """For a page's script: one entry a rollout, in the order of the groups."""
        models = self.rollouts["model"].to_pylist()
        names = sorted({model for model in models if model is not None})
        holes = {}
        for row in np.flatnonzero(self.counted_b < self.lengths_b).tolist():
            mask_t = self.mask_n[self.offsets_b[row] : self.offsets_b[row + 1]]
            edges = np.flatnonzero(np.diff(np.concatenate([[True], mask_t, [True]])))
            holes[row] = edges  # begin and end of every masked stretch, in turn
        return {
            "length": self.lengths_b,
            "reward": self.reward_b,
            "correct": self.correct_b,
            "advantage": self.advantage_b,
            "own_advantages": self.own_advantages,
            "models": names,
            "pooled": len(set(zip(self.group_b.tolist(), models, strict=True)))
            > len(set(self.group_b.tolist())),
            "model": [-1 if model is None else names.index(model) for model in models],
            "holes": holes,
        }


def frame_of(dump: Dump) -> Frame:
    """The rollouts of a dump, without their tokens."""
    rollouts = dump.rollouts
    # Groups by first appearance; a stable order keeps the rollouts of each in theirs.
    codes_b, first_rows = group_codes(rollouts)
    order = np.argsort(codes_b, kind="stable")
    group_b = codes_b[order]
    labels = take_rows(rollouts.select(["group", "step"]), first_rows)
    correct, reward, advantage = (rollouts[x] for x in ("correct", "reward", "advantage"))
    lengths_b = pc.list_value_length(rollouts["token_ids"]).to_numpy().astype(np.int64)
    reward_b = reward.to_numpy()[order]
    has_advantages = advantage.null_count < len(rollouts)
    counted_b = lengths_b.copy()
    for row, mask in enumerate(masks_of(rollouts)):
        if mask is not None:
            counted_b[row] = mask.sum()
    counted_b = counted_b[order]
    if has_advantages:
        advantage_b = advantage.to_numpy()[order]
    else:
        # GRPO's, as in TRL: among those rollouts of a group that have a reward.
        has_reward_b = ~np.isnan(reward_b)
        counts_b = (counted_b > 0) & has_reward_b
        advantage_b = rollout_advantages("grpo", np.nan_to_num(reward_b), counts_b, group_b)
        advantage_b = np.where(has_reward_b, advantage_b, np.nan)
    return Frame(
        rollouts,
        order,
        group_b,
        np.searchsorted(group_b, np.arange(len(first_rows) + 1)),
        labels["group"].to_pylist(),
        labels["step"].to_pylist(),
        pc.fill_null(correct, np.nan).to_numpy()[order],
        reward_b,
        advantage_b,
        has_advantages,
        lengths_b[order],
        counted_b,
    )


def columns_of(dump: Dump) -> Columns:
    """All groups of a dump with their tokens."""
    frame = frame_of(dump)
    return frame.columns(np.arange(len(frame.labels)))


def _lists(extra: Any) -> Iterator[tuple[int, str, list[float] | None]]:
    """Row, signal and values of whatever is under one of the names in `SIGNALS`; None for the
    values where it is no list of numbers."""
    pattern = "|".join(f'"{name}"' for names in SIGNALS.values() for name in names)
    begin = 0
    for chunk in extra.chunks:
        # A look at the text finds the few rows whose JSON has to be read.
        named = pc.fill_null(pc.match_substring_regex(chunk, pattern), False)
        for row in np.flatnonzero(named.to_numpy(zero_copy_only=False)).tolist():
            fields = json.loads(chunk[row].as_py())
            for signal, names in SIGNALS.items():
                name = next((name for name in names if name in fields), None)
                if name is None:
                    continue
                values, numbers = fields[name], None
                if isinstance(values, list):
                    # Texts, lists, 10**400: no numbers, and the page says so.
                    with contextlib.suppress(TypeError, ValueError, OverflowError):
                        numbers = [np.nan if x is None else float(x) for x in values]
                yield begin + row, signal, numbers
        begin += len(chunk)
