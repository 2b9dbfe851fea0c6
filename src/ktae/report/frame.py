"""A dump as NumPy arrays: the rollouts of a group are neighbours, and their tokens lie flat."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.report.inputs import Dump
from ktae.rollout_advantages import rollout_advantages
from ktae.rollouts.files import SUFFIXES
from ktae.rollouts.groups import arrays_of, group_codes, masks_of, take_rows
from ktae.rollouts.tokens import Spelling

SIGNALS = {
    "log_prob": ("log_probs", "logprobs", "old_log_probs", "rollout_log_probs"),
    "entropy": ("entropy", "entropies", "old_entropies"),
}
"""Names that a dump may give to a list of one number a token (natural logarithm, nats)."""

FILE = re.compile(rf"([^:]+(?:{'|'.join(map(re.escape, SUFFIXES))})):")
"""What a reader puts in front of the label of a group in one of a folder's files."""

ROWS_AT_ONCE = 8192
"""Rollouts that are looked at in one go: Arrow has at most 2 GB of texts in one piece."""


class Origins(NamedTuple):
    """Where each group comes from."""

    label: list[str]
    """Its label, without the file."""
    files: list[str]
    """Short names of the files; none where the dump is one file."""
    file: list[int]
    """Each group's place in `files`; -1: none."""
    run: list[int]
    """Which of several inputs it comes from; -1 where there is one."""
    prompt: list[int]
    """A number that groups of the same prompt share."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """B rollouts with N tokens, in G groups by first appearance in the dump."""

    dump: Dump
    rollouts: Any
    """The record, in the order of the groups."""
    group_b: np.ndarray
    """(B,) int64, ascending."""
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
    offsets_b: np.ndarray
    """(B + 1,) where each rollout's tokens begin."""
    which_n: np.ndarray
    """(N,) each token's place in `Dump.token_ids`."""
    mask_n: np.ndarray
    """(N,) bool: which tokens count."""

    def sum_rollouts(self, values_b: np.ndarray) -> np.ndarray:
        """(G,) each group's sum of a value per rollout."""
        totals_g: np.ndarray = np.bincount(self.group_b, values_b, minlength=len(self.labels))
        return totals_g

    def sum_tokens(self, values_n: np.ndarray) -> np.ndarray:
        """(B,) float64 each rollout's sum of a value per token."""
        totals_b = np.zeros(len(self.lengths_b))
        # `reduceat` takes the next value where a rollout has no tokens, so those are left out. It
        # makes float64 of all that it is given.
        some = np.flatnonzero(self.lengths_b)
        for rows in np.array_split(some, len(some) // ROWS_AT_ONCE + 1) if len(some) else ():
            begin, end = self.offsets_b[rows[0]], self.offsets_b[rows[-1] + 1]
            places = self.offsets_b[rows] - begin
            totals_b[rows] = np.add.reduceat(values_n[begin:end], places, dtype=np.float64)
        return totals_b

    def span(self, row: int) -> slice:
        """Where a rollout's tokens are."""
        return slice(*self.offsets_b[row : row + 2].tolist())

    def spell(self, row: int) -> Spelling:
        """A rollout's text, as its tokens spell it."""
        return self.dump.speller.spell(self.which_n[self.span(row)])

    def of_groups(self, name: str) -> list[str | None]:
        """A column of text, for the first rollout of each group."""
        texts = take_rows(self.rollouts.select([name]), self.starts_g[:-1])
        return list(texts[name].to_pylist())

    @functools.cached_property
    def origins(self) -> Origins:
        """The file, the input and the prompt of each group."""
        names = self.dump.names
        label, files, file = files_of(self.labels, names)
        run_g = [-1] * len(self.labels)
        if len(names) > 1:
            # The longest name that a label begins with: one may begin another.
            longest = sorted(names, key=len, reverse=True)
            begins = (next((x for x in longest if y.startswith(x)), None) for y in self.labels)
            run_g = [-1 if name is None else names.index(name) for name in begins]
        numbers: dict[str, int] = {}
        prompt = [
            numbers.setdefault(prompt or f"\0{short}", len(numbers))
            for prompt, short in zip(self.of_groups("prompt"), label, strict=True)
        ]
        return Origins(label, files, file, run_g, prompt)

    @functools.cached_property
    def signals(self) -> tuple[dict[str, np.ndarray], Counter[str]]:
        """`log_prob` and `entropy`, (N,) float32 with NaN where a rollout has none; and how many
        rollouts hold something else than a number a token under such a name."""
        signals, misaligned = dict[str, np.ndarray](), Counter[str]()
        extra = self.rollouts["extra"]
        # A look at the text finds the few rows whose JSON has to be read.
        pattern = "|".join(f'"{name}"' for names in SIGNALS.values() for name in names)
        named = pc.fill_null(pc.match_substring_regex(extra, pattern), False).to_numpy()
        for row in np.flatnonzero(named).tolist():
            fields, span = json.loads(extra[row].as_py()), self.span(row)
            for signal, names in SIGNALS.items():
                values = next((fields[name] for name in names if name in fields), ())
                if values == ():
                    continue
                try:
                    if not isinstance(values, list) or len(values) != self.lengths_b[row]:
                        raise ValueError
                    numbers = [np.nan if x is None else float(x) for x in values]
                except (TypeError, ValueError, OverflowError):  # texts, lists and 10**400
                    misaligned[signal] += 1
                    continue
                empty = np.full(len(self.which_n), np.nan, dtype=np.float32)
                signals.setdefault(signal, empty)[span] = numbers
        return signals, misaligned


def frame_of(dump: Dump) -> Frame:
    """The rollouts of a dump."""
    codes_b, _ = group_codes(dump.rollouts)
    # A stable order keeps the rollouts of a group in theirs.
    order_b = np.argsort(codes_b, kind="stable")
    some = np.array_split(order_b, len(order_b) // ROWS_AT_ONCE + 1)
    rollouts = pa.concat_tables([take_rows(dump.rollouts, rows) for rows in some])
    group_b = codes_b[order_b]
    starts_g = np.searchsorted(group_b, np.arange(group_b.max(initial=-1) + 2))
    labels = take_rows(rollouts.select(["group", "step"]), starts_g[:-1])

    lengths_b = pc.list_value_length(rollouts["token_ids"]).to_numpy().astype(np.int64)
    offsets_b = np.concatenate([[0], np.cumsum(lengths_b)])
    mask_n, counted_b = np.ones(offsets_b[-1], dtype=bool), lengths_b.copy()
    for row, mask in enumerate(masks_of(rollouts)):
        if mask is not None:
            mask_n[offsets_b[row] : offsets_b[row + 1]] = mask
            counted_b[row] = mask.sum()

    reward_b = rollouts["reward"].to_numpy()
    own_advantages = rollouts["advantage"].null_count < len(rollouts)
    if own_advantages:
        advantage_b = rollouts["advantage"].to_numpy()
    else:
        # GRPO's, as in TRL: among those rollouts of a group that have a reward.
        has_reward_b = ~np.isnan(reward_b)
        counts_b = (counted_b > 0) & has_reward_b
        advantage_b = rollout_advantages("grpo", np.nan_to_num(reward_b), counts_b, group_b)
        advantage_b = np.where(has_reward_b, advantage_b, np.nan)
    return Frame(
        dump,
        rollouts,
        group_b,
        starts_g,
        labels["group"].to_pylist(),
        labels["step"].to_pylist(),
        pc.fill_null(rollouts["correct"], np.nan).to_numpy(),
        reward_b,
        advantage_b,
        own_advantages,
        lengths_b,
        counted_b,
        offsets_b,
        dump.which(np.concatenate(arrays_of(rollouts["token_ids"]))),
        mask_n,
    )


def files_of(labels: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str], list[int]]:
    """Labels without their file, short names of the files, and which of them each label has."""
    if not names:  # rollouts in memory: a label is a label
        return list(labels), [], [-1] * len(labels)
    parts = [_split(label, names) for label in labels]
    full = list(dict.fromkeys(file for file, _ in parts if file))
    # Short names: without the folders that all files have in common.
    folders = {os.path.dirname(os.path.abspath(file)) for file in full}
    common = os.path.commonpath(folders) if folders else ""
    places = [full.index(file) if file else -1 for file, _ in parts]
    return [label for _, label in parts], [os.path.relpath(x, common) for x in full], places


def _split(label: str, names: Sequence[str]) -> tuple[str, str]:
    """A label's file, empty for none, and what is left of the label."""
    known = names if len(names) > 1 else []
    name = next((name for name in known if label.startswith(f"{name}:")), "")
    label = label.removeprefix(f"{name}:")
    inner = FILE.match(label)
    if inner is None or all(x.endswith(SUFFIXES) for x in ([name] if name else names)):
        return name, label  # an input that is a file has no files in it
    return os.path.join(name, inner.group(1)), label[inner.end() :]
