"""A dump as NumPy columns: rollouts in the order of their groups, tokens flat with offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.report.inputs import Dump
from ktae.rollout_advantages import rollout_advantages
from ktae.rollouts.groups import group_codes

SIGNALS = {
    "log_prob": ("log_probs", "logprobs", "old_log_probs", "rollout_log_probs"),
    "entropy": ("entropy", "entropies", "old_entropies"),
}
"""Names that a dump may give to a list of one number a token (natural logarithm, nats)."""


class Columns(NamedTuple):
    """B rollouts of N tokens in G groups; the rollouts of a group are neighbours."""

    rollouts: Any
    """The record, in that order."""
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
    offsets_b: np.ndarray
    """(B + 1,) where each rollout's tokens begin."""
    ids_n: np.ndarray
    """(N,) int64 token ids."""
    mask_n: np.ndarray
    """(N,) bool: which tokens count."""
    signals: dict[str, np.ndarray]
    """(N,) float32, NaN where a rollout has none: `log_prob` and `entropy`, where the dump does."""
    misaligned: dict[str, int]
    """Signals' rollouts that hold something else than a number for each token id, left out."""

    def lengths(self) -> np.ndarray:
        """(B,) tokens of each rollout, masked ones included."""
        lengths_b: np.ndarray = np.diff(self.offsets_b)
        return lengths_b

    def sum_tokens(self, values_n: np.ndarray) -> np.ndarray:
        """(B,) each rollout's sum of a value per token."""
        sums = np.concatenate([[0.0], np.cumsum(values_n, dtype=np.float64)])
        totals_b: np.ndarray = sums[self.offsets_b[1:]] - sums[self.offsets_b[:-1]]
        return totals_b

    def sum_rollouts(self, values_b: np.ndarray) -> np.ndarray:
        """(G,) each group's sum of a value per rollout."""
        totals_g: np.ndarray = np.bincount(self.group_b, values_b, minlength=len(self.labels))
        return totals_g


def columns_of(dump: Dump) -> Columns:
    """The columns of a dump."""
    codes_b, first_rows = group_codes(dump.rollouts)
    order = np.argsort(codes_b, kind="stable")
    rollouts = dump.rollouts.take(pa.array(order)).combine_chunks()
    group_b = codes_b[order]
    labels = dump.rollouts.select(["group", "step"]).take(pa.array(first_rows))
    offsets_b = np.concatenate([[0], np.cumsum(pc.list_value_length(rollouts["token_ids"]))])
    ids_n = pc.list_flatten(rollouts["token_ids"]).to_numpy().astype(np.int64)
    mask_n = _mask(rollouts, offsets_b)
    counted_b = np.add.reduceat(np.append(mask_n, False), offsets_b[:-1]) > 0
    counted_b &= np.diff(offsets_b) > 0
    signals, misaligned = _signals(rollouts, offsets_b)
    reward_b = rollouts["reward"].to_numpy()
    own = rollouts["advantage"].null_count < len(rollouts)
    advantage_b = rollouts["advantage"].to_numpy() if own else _grpo(reward_b, counted_b, group_b)
    return Columns(
        rollouts,
        group_b,
        np.searchsorted(group_b, np.arange(len(first_rows) + 1)),
        labels["group"].to_pylist(),
        labels["step"].to_pylist(),
        pc.fill_null(rollouts["correct"], np.nan).to_numpy(),
        reward_b,
        advantage_b,
        own,
        offsets_b,
        ids_n,
        mask_n,
        signals,
        misaligned,
    )


def _grpo(reward_b: np.ndarray, counted_b: np.ndarray, group_b: np.ndarray) -> np.ndarray:
    """(B,) GRPO's advantages among each group's rollouts that have a reward, as in TRL; NaN for
    the others."""
    has_reward_b = ~np.isnan(reward_b)
    advantages_b = rollout_advantages(
        "grpo",
        np.nan_to_num(reward_b),
        (counted_b & has_reward_b).astype(float),
        lambda x: np.bincount(group_b, x)[group_b],
    )
    known_b: np.ndarray = np.where(has_reward_b, advantages_b, np.nan)
    return known_b


def _mask(rollouts: Any, offsets_b: np.ndarray) -> np.ndarray:
    mask_n = np.ones(offsets_b[-1], dtype=bool)
    if rollouts["mask"].null_count < len(rollouts):
        for row, mask in enumerate(rollouts["mask"]):
            if mask.is_valid:
                mask_n[offsets_b[row] : offsets_b[row + 1]] = mask.values.to_numpy(
                    zero_copy_only=False
                )
    return mask_n


def _signals(rollouts: Any, offsets_b: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    signals: dict[str, np.ndarray] = {}
    misaligned: dict[str, int] = {}
    for row, name, values in _lists(rollouts["extra"]):
        start, stop = offsets_b[row], offsets_b[row + 1]
        if values is None or len(values) != stop - start:
            misaligned[name] = misaligned.get(name, 0) + 1
            continue
        column = signals.setdefault(name, np.full(offsets_b[-1], np.nan, dtype=np.float32))
        column[start:stop] = values
    return signals, misaligned


def _lists(extra: Any) -> Iterator[tuple[int, str, list[float] | None]]:
    """Row, signal and values of whatever is under one of the names in `SIGNALS`; None for the
    values where it is no list of numbers."""
    pattern = "|".join(f'"{name}"' for names in SIGNALS.values() for name in names)
    for row in np.flatnonzero(
        pc.fill_null(pc.match_substring_regex(extra, pattern), False).to_numpy()
    ).tolist():
        fields = json.loads(extra[row].as_py())
        for signal, names in SIGNALS.items():
            given = next((name for name in names if name in fields), None)
            if given is not None:
                yield row, signal, _numbers(fields[given])


def _numbers(values: object) -> list[float] | None:
    if not isinstance(values, list):
        return None
    try:
        return [np.nan if x is None else float(x) for x in values]
    except (TypeError, ValueError, OverflowError):  # texts, lists, 10**400: the page says so
        return None
