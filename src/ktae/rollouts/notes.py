"""What a reader did that a person should know: one list for the terminal, `--json` and the page."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ktae.errors import InputError

SHOWN = 5
"""Names in a note, such as files."""


class Note(NamedTuple):
    """One thing to know about what was read."""

    kind: str
    """Read, joined, masked, left out, assumed or missing."""
    text: str
    """What it is and how often, as in "padding rows left out: 2"."""
    more: str
    """What that means, in a sentence or none."""
    n: int
    severe: bool
    """Whether something that a reader expects is missing, or may well be meant otherwise."""


TEXTS = """
titles, read: read as {names}
trained, assumed: taken from the trainer's ktae.json: {names}
taken, assumed: of several rewards {names} says what is correct
    --correctness takes another.
values, assumed!: rewards above 0 of several values ({names}): {n:,}
    Where verdicts count, all of these are correct. --threshold says above what a reward is
    correct; --threshold 0 says that this is meant.
all_above, assumed!: every reward is above 0 ({names}), so all rollouts are correct
    --threshold says which rewards mean correct.
none_above, assumed!: no reward is above 0 ({names}), so all rollouts are incorrect
    --threshold says which rewards mean correct.
verdicts, assumed!: verdicts neither right nor wrong ({names}), so unknown: {n:,}
without_reward, missing!: rollouts without a reward, so with no verdict: {n:,}
    --field reward=PATH says where it is.
without_group, assumed: rows without a group, so one prompt of a step is one group: {n:,}
by_row, assumed: rows without a group and a prompt, so the rollouts of a row are compared: {n:,}
alone, missing!: rollouts with neither group nor prompt, each a group of its own: {n:,}
    Nothing is compared with them.
split, assumed!: rollouts with another prompt than the first of their group, told apart: {n:,}
    A group is one label and one prompt.
apart, assumed!: groups that stand in several files, in each file a group of its own: {n:,}
    --join takes the files together.
overlap, assumed!: files that several of the compared hold: {n:,} ({names})
    Their outputs are compared with themselves.
copies, assumed!: rollouts whose text is there before in their group: {n:,}
    All texts are, as where a file has a row for each grader of a response. Each row counts.
run, joined: groups in several files of one run, each one group: {n:,}
join, joined: files taken together: {n:,}
models, assumed: models told apart: {n:,}
    A group is a problem of one model; --pool-models pools them.
pooled, joined: models pooled: {n:,}
    A group holds rollouts of all of them; --by-model tells them apart.
context, masked: responses with text of tools or users in them: {n:,}
    That text is shown, neither counted nor given credit.
turns, assumed: responses in which users speak between the assistant's turns: {n:,}
    All of these turns count. If the first are examples, --field response=PATH[-1].content
    takes the last alone.
ids, left out: responses with text of tools or users whose token ids have no mask: {n:,}
    Their text counts, and not the ids.
words, missing!: no tokenizer, so texts are cut at words
    Words, signs and blanks are compared instead of the policy's tokens, so values are not those
    that training uses. --tokenizer, a folder or a hub name, gives tokens.
made, assumed: token ids were made from the text
    The policy may have cut it otherwise, and special tokens that the trainer removed (verl does)
    are missing.
evaluation, left out: rollouts of evaluations left out: {n:,}
    --evaluation reads these, and not those of training.
training, left out: rollouts of training left out: {n:,}
filters, left out: rows left out, other filters of the same responses: {n:,}
    lm-evaluation-harness writes a row for each; the first counts.
steps, left out: {names}: the same rollouts, counted once
    TRL logs its last batch at each step that the batch serves.
padding, left out: padding rows left out: {n:,}
    verl fills up its batches.
intermediate, left out: intermediate outputs left out: {n:,}
    An agent's session in verl's dump is its last output.
empty, left out!: rows with an empty list of rollouts: {n:,} ({names})
files, left out!: other files left alone: {n:,} ({names})
    They hold no rollouts or the same ones, are of evaluations (--evaluation reads these), or are
    packed otherwise than as .gz. Give a file by its own name to read it.
broken, left out!: files that could not be read: {n:,} ({names})
settings, left out: files of models, settings, notes and measurements: {n:,} ({names})
rejected, left out!: rows that could not be used: {n:,} ({names})
"""
"""Key, kind and text of each note in the order in which they are told, and below what that means.
! is severe, `{n}` the count, `{names}` the first of what it is about."""


TEMPLATES: dict[str, Note] = {}
"""The notes of `TEXTS` by their keys."""
for entry in re.split(r"\n(?! )", TEXTS.strip()):
    line, _, more = entry.partition("\n")
    key, kind, text = re.split(r", |: ", line, maxsplit=2)
    TEMPLATES[key] = Note(kind.rstrip("!"), text, " ".join(more.split()), 0, kind.endswith("!"))


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
        """What was noted, in the order of `TEMPLATES`."""
        files = [f"{title} ({n:,} files)" if n > 1 else title for title, n in self.titles.items()]
        counts = {**self.counts, "titles": sum(self.titles.values())}
        for key, note in TEMPLATES.items():
            names = files if key == "titles" else self.names.get(key, [])
            if n := counts.get(key, 0):
                shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
                yield note._replace(text=note.text.format(n=n, names=shown), n=n)

    def listed(self) -> list[dict[str, object]]:
        """The same as `--json` gives it."""
        return [note._asdict() for note in self]
