"""What a reader did that a person should know: one list for the terminal, `--json` and the page."""

from __future__ import annotations

import dataclasses
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ktae.errors import InputError

SHOWN = 5  # names in a note, such as files

KINDS = tomllib.loads(Path(__file__).with_name("notes.toml").read_text(encoding="utf-8"))
"""The notes of each kind by their keys."""


class Note(NamedTuple):
    """One thing to know about what was read."""

    key: str
    kind: str  # read, joined, masked, left out, assumed or missing
    text: str  # what it is and how often, as in "padding rows left out: 2"
    more: str  # what that means, in a sentence or none
    n: int
    severe: bool
    examples: tuple[str, ...]  # the first few that it is about


@dataclasses.dataclass
class Notes:
    """What was noted, and what is done about a row that cannot be used."""

    strict: bool = False  # raise its error, instead of leaving it out
    counts: Counter[str] = dataclasses.field(default_factory=Counter)  # by the keys of notes.toml
    names: dict[str, list[str]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    """The first few that each is about."""
    titles: Counter[str] = dataclasses.field(default_factory=Counter)
    """How many files were read as what, such as "verl's rollout dump"; none for plain rows."""

    def add(self, key: str, name: str | None = None, n: int = 1) -> None:
        """Count something, `n` times."""
        self.counts[key] += n
        known = self.names[key]
        if name is not None and len(known) <= SHOWN and name not in known:
            known.append(name)

    def reject(self, error: InputError) -> None:
        """Note a row that cannot be used, or raise what is wrong with it."""
        if self.strict:
            raise error
        self.add("rejected", str(error).partition("\n")[0])

    def __iter__(self) -> Iterator[Note]:
        """What was noted, in the order of `notes.toml`."""
        files = [f"{title} ({n:,} files)" if n > 1 else title for title, n in self.titles.items()]
        counts = {**self.counts, "titles": self.titles.total()}
        for kind, notes in KINDS.items():
            for key, note in notes.items():
                if n := counts.get(key, 0):
                    names = files if key == "titles" else self.names.get(key, [])
                    shown = ", ".join([*names[:SHOWN], "..."] if len(names) > SHOWN else names)
                    text, more = note["text"].format(n=n, names=shown), note.get("more", "")
                    severe = note.get("severe", False)
                    yield Note(key, kind, text, more, n, severe, tuple(names[:SHOWN]))

    def listed(self) -> list[dict[str, object]]:
        """The same as `--json` gives it."""
        return [note._asdict() for note in self]
