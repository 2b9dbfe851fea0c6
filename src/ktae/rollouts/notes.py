"""What a reader did that a person should know: one list for the terminal, `--json` and the page."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ktae.errors import InputError

Kind = Literal["read", "joined", "masked", "left out", "assumed", "missing"]
SHOWN = 5
"""Names in a note, such as files."""


class Note(NamedTuple):
    """One thing to know about what was read."""

    kind: Kind
    text: str
    """What it is and how often, as in "padding rows left out: 2"."""
    more: str
    """What that means, in a sentence or none."""
    n: int
    severe: bool
    """Whether something that a reader expects is missing, or may well be meant otherwise."""


class Template(NamedTuple):
    """How a note reads: `{n}` is the count, `{names}` are the first of what it is about."""

    kind: Kind
    severe: bool
    text: str
    more: str = ""


TEMPLATES = {
    "titles": Template("read", False, "read {names}"),
    "trained": Template("assumed", False, "taken from the trainer's ktae.json: {names}"),
    "taken": Template(
        "assumed",
        False,
        "of several rewards {names} says what is correct",
        "--correctness takes another.",
    ),
    "values": Template(
        "assumed",
        True,
        "rewards above 0 of several values ({names}): {n:,}",
        "Where verdicts count, all of these are correct. --threshold says above what a reward is "
        "correct; --threshold 0 says that this is meant.",
    ),
    "all_above": Template(
        "assumed",
        True,
        "every reward is above 0 ({names}), so all rollouts are correct",
        "--threshold says which rewards mean correct.",
    ),
    "none_above": Template(
        "assumed",
        True,
        "no reward is above 0 ({names}), so all rollouts are incorrect",
        "--threshold says which rewards mean correct.",
    ),
    "verdicts": Template(
        "assumed", True, "verdicts that are neither right nor wrong ({names}), so unknown: {n:,}"
    ),
    "without_reward": Template(
        "missing", True, "rollouts without a reward, so whether they are correct is unknown: {n:,}"
    ),
    "without_group": Template(
        "assumed", False, "rows without a group, so one prompt of a step is one group: {n:,}"
    ),
    "by_row": Template(
        "assumed",
        False,
        "rows without a group and a prompt, so the rollouts of a row are compared: {n:,}",
    ),
    "alone": Template(
        "missing",
        True,
        "rollouts with neither group nor prompt, each a group of its own: {n:,}",
        "Nothing is compared with them.",
    ),
    "split": Template(
        "assumed",
        True,
        "rollouts with another prompt than the first of their group, told apart: {n:,}",
        "A group is one label and one prompt.",
    ),
    "apart": Template(
        "assumed",
        True,
        "groups that stand in several files, in each file a group of its own: {n:,}",
        "--join takes the files together.",
    ),
    "run": Template(
        "joined", False, "groups that stand in several files of one run, each one group: {n:,}"
    ),
    "join": Template("joined", False, "files taken together: {n:,}"),
    "models": Template(
        "assumed",
        False,
        "models told apart: {n:,}",
        "A group is a problem of one model; --pool-models pools them.",
    ),
    "pooled": Template(
        "joined",
        False,
        "models pooled: {n:,}",
        "A group holds rollouts of all of them; --by-model tells them apart.",
    ),
    "context": Template(
        "masked",
        False,
        "responses with text of tools or users in them: {n:,}",
        "That text is shown, neither counted nor given credit.",
    ),
    "ids": Template(
        "left out",
        False,
        "responses with text of tools or users whose token ids have no mask: {n:,}",
        "Their text counts, and not the ids.",
    ),
    "half_surrogates": Template(
        "assumed", False, "rows with half surrogate pairs, shown as U+FFFD: {n:,}"
    ),
    "evaluation": Template(
        "left out",
        False,
        "rollouts of evaluations left out: {n:,}",
        "--evaluation reads these, and not those of training.",
    ),
    "training": Template("left out", False, "rollouts of training left out: {n:,}"),
    "filters": Template(
        "left out",
        False,
        "rows left out, other filters of the same responses: {n:,}",
        "lm-evaluation-harness writes a row for each filter; the first counts.",
    ),
    "steps": Template(
        "left out",
        False,
        "{names}: the same rollouts, counted once",
        "TRL logs the last batch that it generated; a batch may serve several steps.",
    ),
    "padding": Template(
        "left out", False, "padding rows left out: {n:,}", "verl fills up its batches with them."
    ),
    "intermediate": Template(
        "left out",
        False,
        "intermediate outputs left out: {n:,}",
        "An agent's session in verl's dump is its last output.",
    ),
    "empty": Template("left out", True, "rows with an empty list of rollouts: {n:,} ({names})"),
    "files": Template(
        "left out",
        True,
        "other files left alone: {n:,} ({names})",
        "They hold no rollouts that can be told, or the same ones. Give a file by its own name to "
        "read it, and unpack what is not .gz.",
    ),
    "rejected": Template("left out", True, "rows that could not be used: {n:,} ({names})"),
}
"""In the order in which they are told."""


@dataclasses.dataclass
class Notes:
    """What was noted, and what is done about a row that cannot be used."""

    strict: bool = False
    """Raise its error, instead of leaving it out."""
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    """By the keys of `TEMPLATES`."""
    names: dict[str, list[str]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    """The first few that each is about."""
    titles: Counter[str] = dataclasses.field(default_factory=Counter)
    """How many files were read as what, such as "verl's rollout dump"; none for plain rows."""

    def add(self, key: str, name: str | None = None, n: int = 1) -> None:
        """Count something."""
        self.counts[key] += n
        known = self.names[key]
        if name is not None and len(known) <= SHOWN and name not in known:
            known.append(name)

    def reject(self, error: InputError) -> None:
        """Note a row that cannot be used, or raise what is wrong with it."""
        if self.strict:
            raise error
        self.add("rejected", str(error).partition("\n")[0])

    def read_as(self) -> str:
        """As in "as verl's rollout dump (2 files), by the fields that were named"."""
        parts: list[str] = []
        for title, k in self.titles.items():
            how = title if title.startswith("by ") or parts else f"as {title}"
            parts.append(f"{how} ({k:,} files)" if k > 1 else how)
        return ", ".join(parts)

    def __iter__(self) -> Iterator[Note]:
        """What was noted, in the order of `TEMPLATES`."""
        for key, (kind, severe, text, more) in TEMPLATES.items():
            n = sum(self.titles.values()) if key == "titles" else self.counts[key]
            names = [self.read_as()] if key == "titles" else self.names.get(key, [])
            if n:
                rest = ", ..." if len(names) > SHOWN else ""
                shown = ", ".join(names[:SHOWN]) + rest
                yield Note(kind, text.format(n=n, names=shown), more, n, severe)

    def listed(self) -> list[dict[str, object]]:
        """The same as `--json` gives it."""
        return [x._asdict() for x in self]
