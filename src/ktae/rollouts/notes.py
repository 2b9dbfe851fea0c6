"""What a reader did that a person should know: one list for the terminal, `--json` and the page."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ktae.errors import InputError

SHOWN = 5
"""Names in a note, such as files."""


class Note(NamedTuple):
    """One thing to know about what was read."""

    key: str
    kind: str
    """Read, joined, masked, left out, assumed or missing."""
    text: str
    """What it is and how often, as in "padding rows left out: 2"."""
    more: str = ""
    """What that means, in a sentence or none."""
    n: int = 0
    severe: bool = False
    """Whether something that a reader expects is missing, or may well be meant otherwise."""
    examples: tuple[str, ...] = ()
    """The first few that it is about."""


TEMPLATES = {
    note.key: note
    for note in (
        Note("titles", "read", "read as {names}"),
        Note("trained", "assumed", "taken from the trainer's ktae.json: {names}"),
        Note(
            "taken",
            "assumed",
            "of several rewards {names} says what is correct",
            "--correctness takes another.",
        ),
        Note(
            "values",
            "assumed",
            "rewards above 0 of several values ({names}): {n:,}",
            "Where verdicts count, all of these are correct. --threshold says above what a "
            "reward is correct; --threshold 0 says that this is meant.",
            severe=True,
        ),
        Note(
            "all_above",
            "assumed",
            "every reward is above 0 ({names}), so all rollouts are correct",
            "--threshold says which rewards mean correct.",
            severe=True,
        ),
        Note(
            "none_above",
            "assumed",
            "no reward is above 0 ({names}), so all rollouts are incorrect",
            "--threshold says which rewards mean correct.",
            severe=True,
        ),
        Note(
            "verdicts",
            "assumed",
            "verdicts neither right nor wrong ({names}), so unknown: {n:,}",
            "",
            severe=True,
        ),
        Note(
            "without_reward",
            "missing",
            "rollouts without a reward, so with no verdict: {n:,}",
            "--field reward=PATH says where it is.",
            severe=True,
        ),
        Note(
            "without_group",
            "assumed",
            "rows without a group, so one prompt of a step is one group: {n:,}",
        ),
        Note(
            "by_row",
            "assumed",
            "rows without a group and a prompt, so the rollouts of a row are compared: {n:,}",
        ),
        Note(
            "alone",
            "missing",
            "rollouts with neither group nor prompt, each a group of its own: {n:,}",
            "Nothing is compared with them.",
            severe=True,
        ),
        Note(
            "split",
            "assumed",
            "rollouts with another prompt than the first of their group, told apart: {n:,}",
            "A group is one label and one prompt.",
            severe=True,
        ),
        Note(
            "apart",
            "assumed",
            "groups that stand in several files, in each file a group of its own: {n:,}",
            "--join takes the files together.",
            severe=True,
        ),
        Note(
            "overlap",
            "assumed",
            "files that several of the compared hold: {n:,} ({names})",
            "Their outputs are compared with themselves.",
            severe=True,
        ),
        Note(
            "copies",
            "assumed",
            "rollouts whose text is there before in their group: {n:,}",
            "All texts are, as where a file has a row for each grader of a response. Each "
            "row counts.",
            severe=True,
        ),
        Note("run", "joined", "groups in several files of one run, each one group: {n:,}"),
        Note("join", "joined", "files taken together: {n:,}"),
        Note(
            "models",
            "assumed",
            "models told apart: {n:,}",
            "A group is a problem of one model; --pool-models pools them.",
        ),
        Note(
            "pooled",
            "joined",
            "models pooled: {n:,}",
            "A group holds rollouts of all of them; --by-model tells them apart.",
        ),
        Note(
            "context",
            "masked",
            "responses with text of tools or users in them: {n:,}",
            "That text is shown, neither counted nor given credit.",
        ),
        Note(
            "states",
            "assumed",
            "later turns of agents whose state another turn of the group shares: {names}",
            "anchor-states compares these alone, and gives the others no credit.",
            severe=True,
        ),
        Note(
            "turns",
            "assumed",
            "responses in which users speak between the assistant's turns: {n:,}",
            "All of these turns count. If the first are examples, --field "
            "response=PATH[-1].content takes the last alone.",
        ),
        Note(
            "ids",
            "left out",
            "responses with text of tools or users whose token ids have no mask: {n:,}",
            "Their text counts, and not the ids.",
        ),
        Note(
            "words",
            "missing",
            "no tokenizer, so texts are cut at words",
            "Words, signs and blanks are compared instead of the policy's tokens, so "
            "values are not those that training uses. --tokenizer, a folder or a hub name, "
            "gives tokens.",
            severe=True,
        ),
        Note(
            "made",
            "assumed",
            "token ids were made from the text",
            "The policy may have cut it otherwise, and special tokens that the trainer "
            "removed (verl does) are missing.",
        ),
        Note(
            "evaluation",
            "left out",
            "rollouts of evaluations left out: {n:,}",
            "--evaluation reads these, and not those of training.",
        ),
        Note("training", "left out", "rollouts of training left out: {n:,}"),
        Note(
            "filters",
            "left out",
            "rows left out, other filters of the same responses: {n:,}",
            "lm-evaluation-harness writes a row for each; the first counts.",
        ),
        Note(
            "steps",
            "left out",
            "{names}: the same rollouts, counted once",
            "TRL logs its last batch at each step that the batch serves.",
        ),
        Note("padding", "left out", "padding rows left out: {n:,}", "verl fills up its batches."),
        Note(
            "intermediate",
            "left out",
            "intermediate outputs left out: {n:,}",
            "An agent's session in verl's dump is its last output.",
        ),
        Note(
            "empty",
            "left out",
            "rows with an empty list of rollouts: {n:,} ({names})",
            "",
            severe=True,
        ),
        Note(
            "files",
            "left out",
            "other files left alone: {n:,} ({names})",
            "They hold no rollouts or the same ones, are of evaluations (--evaluation "
            "reads these), or are packed otherwise than as .gz. Give a file by its own "
            "name to read it.",
            severe=True,
        ),
        Note(
            "broken", "left out", "files that could not be read: {n:,} ({names})", "", severe=True
        ),
        Note(
            "settings",
            "left out",
            "files of models, settings, notes and measurements: {n:,} ({names})",
        ),
        Note(
            "summaries", "left out", "rows that are no rollouts, such as a summary: {n:,} ({names})"
        ),
        Note(
            "rejected", "left out", "rows that could not be used: {n:,} ({names})", "", severe=True
        ),
        Note(
            "turn_rows",
            "assumed",
            "rows that are turns of one episode: {n:,} ({names})",
            "Each counts as a rollout of its own, so a turn is right or wrong by its own reward.",
            severe=True,
        ),
        Note(
            "conditions",
            "assumed",
            "fields that differ between rollouts that are compared: {names}",
            "Where they are conditions, --group-by NAME tells their rollouts apart.",
            severe=True,
        ),
        Note(
            "unsure_answers",
            "assumed",
            "reference answers that differ within a group: {n:,} ({names})",
            "They may be the model's own; --field answer=PATH says where the reference is.",
            severe=True,
        ),
        Note(
            "other_field",
            "assumed",
            "taken for {names}",
            "A field of the plain name holds something else.",
            severe=True,
        ),
        Note(
            "several_prompts",
            "assumed",
            "groups whose prompts differ, since their label was named or is a task: {n:,}",
        ),
        Note(
            "ids_prompt",
            "assumed",
            "groups whose token ids begin alike and whose texts do not: {n:,}",
            "The ids may be the prompt's, too; a mask or --field token_ids=PATH says which "
            "are the response's.",
            severe=True,
        ),
        Note(
            "ids_text",
            "assumed",
            "responses whose token ids are another text by this tokenizer: {n:,} ({names})",
            "They may hold the prompt, or be of another tokenizer.",
            severe=True,
        ),
        Note("rows", "read", "rows at {names}"),
        Note("tables", "assumed", "rows under several names told apart: {n:,}"),
    )
}
"""The notes by their keys, in the order in which they are told. `{n}` is the count, `{names}` the
first of what it is about."""


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
                text = note.text.format(n=n, names=shown)
                yield note._replace(text=text, n=n, examples=tuple(names[:SHOWN]))

    def listed(self) -> list[dict[str, object]]:
        """The same as `--json` gives it."""
        return [note._asdict() for note in self]
