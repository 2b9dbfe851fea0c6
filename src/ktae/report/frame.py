"""A dump as NumPy arrays: the rollouts of a group are neighbours, and their tokens lie flat."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.files.text import short_names
from ktae.padding import MAX_POSITIONS, chunks_of
from ktae.report.inputs import Dump
from ktae.rollout_advantages import rollout_advantages
from ktae.rollouts.conversation import from_json
from ktae.rollouts.groups import arrays_of, group_codes, take_rows
from ktae.rollouts.tokens import Spelling, spell
from ktae.rollouts.values import parse_answers
from ktae.validity import repeats

ROWS_AT_ONCE = 8192  # Arrow has at most 2 GB of texts in one piece
Batch = tuple[np.ndarray, slice, np.ndarray, np.ndarray, np.ndarray]
"""Rows; where their tokens are; (R, T) each token's `which_n`, its mask, and what is no padding."""


class Origins(NamedTuple):
    """Where each group comes from."""

    label: list[str]  # in its file and step; its name where another group there has the same one
    files: list[str]  # short names of the files or runs that groups are told apart by
    file: list[int]  # each group's place in `files`; -1: none
    inputs: list[str]  # short names of the inputs, where there are several
    input_g: np.ndarray  # (G,) each group's place in `inputs`; -1: none
    prompt_g: np.ndarray  # (G,) a number that groups of the same prompt share


@dataclasses.dataclass(frozen=True)
class Frame:
    """B rollouts with N tokens, in G groups by first appearance in the dump."""

    dump: Dump
    rollouts: Any  # the record, in the order of the groups
    group_b: np.ndarray  # (B,) int64, ascending
    starts_g: np.ndarray  # (G + 1,) where each group's rollouts begin
    correct_b: np.ndarray  # (B,) float64: 1, 0, NaN for unknown
    reward_b: np.ndarray  # (B,) float64; NaN where there is none, which is no reward of 0
    advantage_b: np.ndarray  # (B,) float64: the dump's or, where it holds none, GRPO's; else NaN
    lengths_b: np.ndarray  # (B,) int64 tokens of each rollout, masked ones included
    counted_b: np.ndarray  # (B,) int64 those that are not masked
    offsets_b: np.ndarray  # (B + 1,) where each rollout's tokens begin
    which_n: np.ndarray  # (N,) int32: each token's place in `Dump.token_ids`
    mask_n: np.ndarray  # (N,) bool: which tokens count

    @property
    def sizes_g(self) -> np.ndarray:
        """(G,) rollouts of each group."""
        return np.diff(self.starts_g)

    @functools.cached_property
    def known_b(self) -> np.ndarray:
        """(B,) bool: whether it is known that the rollout is correct or incorrect."""
        known_b: np.ndarray = ~np.isnan(self.correct_b)
        return known_b

    @functools.cached_property
    def names(self) -> list[str]:
        """Each group's name, which no other has in its step."""
        return self.of_groups("group")

    @functools.cached_property
    def steps(self) -> list[int | None]:
        """Each group's training step."""
        return self.of_groups("step")

    @functools.cached_property
    def step_g(self) -> np.ndarray:
        """(G,) int64 training steps; -1 where a group has none."""
        return np.array([-1 if step is None else step for step in self.steps], dtype=np.int64)

    @functools.cached_property
    def accepted(self) -> list[tuple[str, ...]]:
        """The reference answers of each rollout; none where it has no reference.

        Of a worked solution what follows `####` is the answer, and a printed list holds several.
        """
        accepted: dict[str | None, tuple[str, ...]] = {None: ()}
        answers = self.rollouts["answer"].to_pylist()
        for answer in answers:
            if answer not in accepted:
                accepted[answer] = ()
                with contextlib.suppress(InputError):  # an empty list, or one of something else
                    parts = parse_answers(answer, "answer")
                    accepted[answer] = tuple(part for part in parts if part.strip())
        return [accepted[answer] for answer in answers]

    def of_groups(self, name: str) -> list[Any]:
        """A column of the record, for the first rollout of each group."""
        first = take_rows(self.rollouts.select([name]), self.starts_g[:-1])
        return list(first[name].to_pylist())

    def sum_rollouts(self, values_b: np.ndarray) -> np.ndarray:
        """(G,) each group's sum of a value per rollout."""
        return np.bincount(self.group_b, values_b, minlength=len(self.sizes_g))

    def have(self, outcome: int) -> np.ndarray:
        """(G,) bool: groups with a response of 1, correct, or 0 that has a token that counts."""
        return self.sum_rollouts((self.counted_b > 0) & (self.correct_b == outcome)) > 0

    def sum_tokens(self, values_n: np.ndarray) -> np.ndarray:
        """(B,) float64 each rollout's sum of a value per token."""
        totals_b = np.zeros(len(self.lengths_b))
        # `reduceat` takes the next value where a rollout has no tokens, so those are left out.
        filled = np.flatnonzero(self.lengths_b)
        if len(filled):
            totals_b[filled] = np.add.reduceat(values_n, self.offsets_b[filled], dtype=np.float64)
        return totals_b

    def span(self, row: int) -> slice:
        """Where a rollout's tokens are."""
        return slice(*self.offsets_b[row : row + 2].tolist())

    def spell(self, row: int) -> Spelling:
        """A rollout's text, as its tokens spell it."""
        return spell(self.dump.texts, self.which_n[self.span(row)])

    def repeated(self, verdict_b: np.ndarray) -> np.ndarray:
        """(B,) bool: rollouts that are no evidence beside others (`ktae.validity.repeats`)."""
        spans = map(self.span, range(len(self.lengths_b)))
        ids = [self.which_n[span][self.mask_n[span]] for span in spans]
        return repeats.repeated(self.group_b, ids, verdict_b)

    def batches(self, mask_n: np.ndarray) -> Iterator[Batch]:
        """Some neighbouring groups at a time, so that a padded batch fits in memory."""
        for rows in chunks_of(self.group_b, self.lengths_b, MAX_POSITIONS):
            span = slice(*self.offsets_b[[rows[0], rows[-1] + 1]].tolist())
            lengths = self.lengths_b[rows]
            inside_bt = np.arange(lengths.max(initial=0)) < lengths[:, None]
            which_bt, mask_bt = np.zeros(inside_bt.shape, np.int32), np.zeros(inside_bt.shape, bool)
            which_bt[inside_bt], mask_bt[inside_bt] = self.which_n[span], mask_n[span]
            yield rows, span, which_bt, mask_bt, inside_bt

    @functools.cached_property
    def origins(self) -> Origins:
        """The file, the input and the prompt of each group."""
        columns = ("run", "file", "label", "prompt", "prompt_id", "group", "step")
        rows = take_rows(self.rollouts.select(columns), self.starts_g[:-1]).to_pylist()
        labels = [
            x["label"] or (f"prompt {y}" if (y := x["prompt_id"]) else x["group"]) for x in rows
        ]
        places = [x["file"] or x["run"] for x in rows]
        files = list(dict.fromkeys(place for place in places if place))
        keys = list(zip(labels, places, self.steps, strict=True))
        times = Counter(keys)
        inputs = self.dump.names if len(self.dump.names) > 1 else []
        input_g = [
            next((i for i, x in enumerate(inputs) if path and Path(path).is_relative_to(x)), -1)
            for path in (x["run"] or x["file"] for x in rows)
        ]
        prompts = [row["prompt"] or f"\0{label}" for row, label in zip(rows, labels, strict=True)]
        numbers = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompts))}
        return Origins(
            [x[0] if times[x] == 1 else row["group"] for x, row in zip(keys, rows, strict=True)],
            short_names([*map(Path, files)]),
            [files.index(x) if x else -1 for x in places],
            short_names([*map(Path, inputs)]),
            np.array(input_g),
            np.array([numbers[prompt] for prompt in prompts]),
        )


def json_fields(extra: Any, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows whose further fields, which are JSON, name one of these, and the fields."""
    # A look at the text finds the few rows whose JSON has to be read.
    pattern = "|".join(f'"{name}"' for name in names)
    named = pc.fill_null(pc.match_substring_regex(extra, pattern), False).to_numpy()
    for row in np.flatnonzero(named).tolist():
        if isinstance(fields := from_json(extra[row].as_py()), dict):
            yield row, fields


def frame_of(dump: Dump) -> Frame:
    """The rollouts of a dump."""
    codes_b, _ = group_codes(dump.rollouts)
    # A stable order keeps the rollouts of a group in theirs.
    order_b = np.argsort(codes_b, kind="stable")
    parts = np.array_split(order_b, len(order_b) // ROWS_AT_ONCE + 1)
    rollouts = pa.concat_tables([take_rows(dump.rollouts, rows) for rows in parts])
    group_b = codes_b[order_b]
    lengths_b = pc.list_value_length(rollouts["token_ids"]).to_numpy().astype(np.int64)
    offsets_b = np.concatenate([[0], np.cumsum(lengths_b)])
    mask_n, counted_b = np.ones(offsets_b[-1], dtype=bool), lengths_b.copy()
    for row, mask in enumerate(arrays_of(rollouts["mask"])):
        if mask is not None:
            mask_n[offsets_b[row] : offsets_b[row + 1]] = mask
            counted_b[row] = mask.sum()
    reward_b = rollouts["reward"].to_numpy()
    advantage_b = rollouts["advantage"].to_numpy()
    if np.isnan(advantage_b).all():
        # GRPO's, as in TRL: among those rollouts of a group that have a reward.
        has_reward_b = ~np.isnan(reward_b)
        counts_b = (counted_b > 0) & has_reward_b
        advantage_b = rollout_advantages("grpo", np.nan_to_num(reward_b), counts_b, group_b)
        advantage_b = np.where(has_reward_b, advantage_b, np.nan)
    ids = pc.list_flatten(rollouts["token_ids"])
    return Frame(
        dump,
        rollouts,
        group_b,
        np.searchsorted(group_b, np.arange(group_b.max(initial=-1) + 2)),
        pc.fill_null(rollouts["correct"], np.nan).to_numpy(),
        reward_b,
        advantage_b,
        lengths_b,
        counted_b,
        offsets_b,
        pc.index_in(ids, pa.array(dump.token_ids, ids.type)).to_numpy(),
        mask_n,
    )
