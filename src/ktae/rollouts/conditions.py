"""Fields that differ between rollouts of a group and come of no rollout, such as a method."""

from __future__ import annotations

from collections import Counter, defaultdict

from ktae.errors import InputError
from ktae.rollouts.names import CONDITIONS, OUTCOMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.values import PARSERS, Row

MAX_VALUES = 64
"""Values of a condition; a field of more is none."""
MAX_ROWS = 5000
"""Rows of a file that are looked at."""


class Conditions:
    """Looks for conditions in the rows of a file."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.rows = 0
        self.values: dict[str, set[str]] = defaultdict(set)
        self.many: set[str] = set()
        """Fields of too many values, and those whose names say that they are outcomes."""
        self.of_group: dict[str, Counter[tuple[tuple[object, ...], str, object]]] = defaultdict(
            Counter
        )

    def add(self, plain: Row, made: Row, is_evaluation: bool) -> None:
        """Look at a rollout: as a plain row, and as a row of the record."""
        self.rows += 1
        if self.rows > MAX_ROWS:
            return
        group = made["label"], made["prompt_id"], made["step"], is_evaluation
        for name, value in plain.items():
            if name in PARSERS or name in self.many or name[:1] == "_" or value is None:
                continue
            lower = name.lower()
            is_outcome = lower not in CONDITIONS and any(x in lower for x in OUTCOMES)
            if is_outcome or not isinstance(value, str | int) or isinstance(value, bool):
                self.many.add(name)
                continue
            text = str(value)
            self.values[name].add(text)
            if len(self.values[name]) > MAX_VALUES:
                self.many.add(name)
                self.of_group.pop(name, None)
                continue
            self.of_group[name][group, text, made["correct"]] += 1

    def note(self) -> None:
        """Note the conditions.

        Raises:
            InputError: where notes are strict, and a field's name says that its rollouts are not
                meant to be compared.
        """
        for name, counts in self.of_group.items():
            if name in self.many or not self._is_condition(name, counts):
                continue
            self.notes.add("conditions", repr(name))
            if self.notes.strict and name.lower() in CONDITIONS:
                raise InputError(
                    f"rollouts of a group differ in {name!r}; expected one value in each group "
                    f"(--group-by PROMPT --group-by {name} tells them apart)"
                )

    def _is_condition(
        self, name: str, counts: Counter[tuple[tuple[object, ...], str, object]]
    ) -> bool:
        """Whether most groups have several values, more than once, which verdicts do not tell."""
        sizes: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
        verdicts: dict[tuple[object, ...], set[object]] = defaultdict(set)
        of_value: dict[tuple[object, str], set[object]] = defaultdict(set)
        for (group, value, correct), n in counts.items():
            sizes[group][value] += n
            verdicts[group].add(correct)
            of_value[group, value].add(correct)
        large = {group: x for group, x in sizes.items() if x.total() > 1}
        several = [x for x in large.values() if len(x) > 1]
        if not several or 2 * len(several) < len(large):
            return False
        is_named = name.lower() in CONDITIONS
        # A number of the rollout within its group has each value once.
        if not is_named and not any(min(x.values()) > 1 for x in several):
            return False
        mixed = [group for group in large if len(verdicts[group]) > 1]
        tells = mixed and all(len(of_value[g, v]) == 1 for g in mixed for v in sizes[g])
        return is_named or not tells
