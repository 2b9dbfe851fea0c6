"""What a reader did with rows that are not as they should be, and what it found the files to be."""

from __future__ import annotations

import dataclasses
from collections import Counter

from ktae.errors import InputError
from ktae.rollouts.rows import is_null
from ktae.rollouts.schemas.base import Row, prompt_label
from ktae.rollouts.suggestion import UnknownRowsError


@dataclasses.dataclass
class Tolerance:
    """For people who look at a dump: what rows lack is made up for, and counted here."""

    strict: bool = False
    """Raise the first error instead, and make up for nothing but a group that the prompt tells."""
    without_reward: int = 0
    """Rows with neither a reward nor a verdict, which would be a reward of 1 or 0."""
    without_group: int = 0
    """Rows without a group that were grouped by their prompt."""
    alone: int = 0
    """Rows with neither group nor prompt, each a group of its own."""
    half_surrogates: int = 0
    """Rows whose text held half a surrogate pair, which is no text; shown as U+FFFD."""
    padding: int = 0
    """verl's padding rows, which are left out."""
    intermediate: int = 0
    """Outputs in the middle of an agent's session in verl's dump, which are left out."""
    repeated: int = 0
    """Rows that repeat rollouts of others: lm-evaluation-harness writes one row a filter."""
    split: int = 0
    """Rows that are told apart by their prompt from others of the group that they name."""
    repeated_steps: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    """TRL's steps that hold the rollouts of the step before: that one, and the one left out."""
    last_step: tuple[float, object] | None = None
    """TRL's step that was read last, and what tells its folder and rollouts from others."""
    fractional: int = 0
    """Rows whose reward lies between 0 and 1 and is a correct one: no threshold was given."""
    by_reward: int = 0
    """Rows whose reward alone says whether they are correct: above 0, no threshold was given."""
    rejected: list[str] = dataclasses.field(default_factory=list)
    """What was wrong with the rows that could not be used."""
    unknown: InputError | None = None
    """The error of the first row that is in no known form, with options that would read it."""
    schemas: Counter[str] = dataclasses.field(default_factory=Counter)
    """How many files were read as what, such as "verl's rollout dump"; none for plain rollouts."""
    taken: Counter[str] = dataclasses.field(default_factory=Counter)
    """Of several rewards the one that was taken, by its name, and in how many files."""
    empty: list[str] = dataclasses.field(default_factory=list)
    """The places of rows with an empty list of rollouts: a problem without any."""
    models: int = 0
    """How many models the rollouts name; 0 where that is at most one."""
    pooled: bool = False
    """Whether a group holds rollouts of all of them; otherwise it is a problem of one model."""
    left_alone: list[str] = dataclasses.field(default_factory=list)
    """Rollouts of a folder that were not read, see `choose_files`; and files without rows."""
    joined: list[list[str]] = dataclasses.field(default_factory=list)
    """Files of one run that hold the same group of the same step: it is one group."""
    apart: list[list[str]] = dataclasses.field(default_factory=list)
    """Files of one folder that hold the same group of the same step, and are several runs."""
    hint: list[str] = dataclasses.field(default_factory=list)
    """Options that name the fields that the first row without a reward or group seems to have."""

    def read_as(self) -> str:
        """As in "read as verl's rollout dump (2 files), by the fields that were named"."""
        parts: list[str] = []
        for name, k in self.schemas.items():
            how = name if name.startswith("by ") else f"as {name}" if not parts else name
            parts.append(f"{how} ({k} files)" if k > 1 else how)
        return f"read {', '.join(parts)}"

    def files_left_alone(self) -> str:
        """As in "2 other files left alone: a.jsonl, b.jsonl"; nothing where there are none."""
        if not self.left_alone:
            return ""
        n, shown = len(self.left_alone), ", ".join(self.left_alone[:5])
        files = "1 other file" if n == 1 else f"{n:,} other files"
        return f"{files} left alone: {shown}{', ...' if n > 5 else ''}"

    def files_of_runs(self) -> list[str]:
        """As in "rank_0.jsonl, rank_1.jsonl: one run, so ..."; none where nothing is shared."""
        one_run = "one run: what has the same group and step in two of them is one group"
        runs = "several runs, since their names differ in more than a number: no group spans them"
        return [
            f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: {what}"
            for files, what in ((self.joined, one_run), (self.apart, runs))
            for names in files
        ]

    def steps_counted_once(self) -> str:
        """As in "step 2 repeats step 1: ... counted once"; nothing where none does."""
        shown = [f"step {b:g} repeats step {a:g}" for a, b in self.repeated_steps]
        if not shown:
            return ""
        rest = f", and {len(shown) - 5:,} more such steps" if len(shown) > 5 else ""
        return f"{', '.join(shown[:5])}{rest}: the same rollouts, counted once"

    def rows_without_rollouts(self) -> str:
        """As in "rows with an empty list of rollouts: 1 (a.jsonl, line 2)"."""
        n, first = len(self.empty), self.empty[:1]
        return f"rows with an empty list of rollouts: {n:,} (the first: {first[0]})" if n else ""

    def reject(self, error: InputError) -> None:
        """Note a row that cannot be used, or raise what is wrong with it."""
        if self.strict:
            raise error
        self.rejected.append(str(error))
        if isinstance(error, UnknownRowsError) and self.unknown is None:
            self.unknown = error

    def complete(self, row: Row, where: str) -> Row:
        """`row`, with whatever it lacks and can be done without."""
        if not ("response" in row or "token_ids" in row):
            return row  # refused, with the fields that it has
        fields = dict(row)
        if not self.strict:
            for name, value in row.items():
                if isinstance(value, str) and not value.isascii():
                    # Half a surrogate pair, which is no text, becomes U+FFFD.
                    fields[name] = value.encode("utf-16", "surrogatepass").decode(
                        "utf-16", "replace"
                    )
            self.half_surrogates += fields != row
        # The same prompt of a step is the same group, also where nobody wrote that down.
        if "group" not in fields or (is_null(fields["group"]) and not self.strict):
            prompt = fields.get("prompt")
            prompt = fields.get("problem") if is_null(prompt) else prompt
            if prompt is not None:
                self.without_group += 1
                fields["group"] = prompt_label(prompt)
            elif not self.strict:
                self.alone += 1
                fields["group"] = where
        # A verdict is a reward of 1 or 0.
        if "reward" not in fields and not is_null(fields.get("correct")):
            fields["reward"] = float(fields["correct"] == 1)
        if not self.strict and is_null(fields.get("reward")):
            known = not is_null(fields.get("correct"))
            self.without_reward += not known
            fields["reward"] = float(fields["correct"] == 1) if known else None
            fields.setdefault("correct", None)
        return fields
