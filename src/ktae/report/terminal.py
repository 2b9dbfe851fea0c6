"""One group in the terminal: its rollouts, every token coloured by its credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import table_estimator
from ktae.files.text import printable
from ktae.report import summary
from ktae.report.columns import Columns, columns_of
from ktae.report.inputs import Dump, require_rollouts

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FOR = (28, 108, 200)
AGAINST = (200, 95, 0)
"""Red, green and blue of the full shade; white text reads on both, also for the colour-blind."""


def show_group(
    console: Console,
    dump: Dump,
    label: str | None = None,
    step: int | None = None,
    estimator: AnEstimator | None = None,
) -> None:
    """Print the correct rollouts of a group, then the others.

    Args:
        console: where to.
        dump: the rollouts.
        label: the group; the first mixed one by default.
        step: its training step; the first that has the group by default.
        estimator: the one that the run was trained with by default, or the paper's.

    Raises:
        InputError: there is no such group, or no rollout at all.
    """
    from rich.text import Text

    require_rollouts(dump)
    of_tokens = table_estimator(estimator or dump.estimator or "paper")
    columns = columns_of(dump)
    group = _find(columns, label, step)
    columns = _only(dump, columns, group)
    scored = summary.score(columns, of_tokens)
    largest = of_tokens.largest_credit(max(2, int(scored.n_true_g[0] + scored.n_false_g[0])))
    texts = dict(zip(dump.token_ids.tolist(), dump.texts, strict=True))
    when = "" if columns.steps[0] is None else f", step {columns.steps[0]}"
    console.print(Text(f"Group {printable(columns.labels[0])}{when}", style="bold"))
    prompt = columns.rollouts["prompt"][0].as_py()
    if prompt:
        console.print(Text(_printable_lines(prompt), style="dim"))
    if not (scored.n_true_g[0] and scored.n_false_g[0]):
        console.print("Not both correct and incorrect rollouts: nothing to compare, no colours.")
    verdicts = ((1.0, "correct"), (0.0, "incorrect"), (np.nan, "unknown"))
    for verdict, name in verdicts:
        for row in np.flatnonzero(_equal(columns.correct_b, verdict)).tolist():
            reward = columns.reward_b[row]
            head = f"\n{name}, rollout {row + 1}: reward "
            head += "none" if np.isnan(reward) else f"{reward:g}"
            head += f", {columns.lengths()[row]} {dump.unit}"
            console.print(Text(head, style="bold"))
            span = slice(columns.offsets_b[row], columns.offsets_b[row + 1])
            ids_t = columns.ids_n[span].tolist()
            console.print(_shaded(ids_t, scored.credit_n[span], texts, largest), soft_wrap=False)


def _find(columns: Columns, label: str | None, step: int | None) -> int:
    for group, (name, when) in enumerate(zip(columns.labels, columns.steps, strict=True)):
        rows = slice(columns.starts_g[group], columns.starts_g[group + 1])
        verdicts = set(columns.correct_b[rows].tolist())
        wanted = {0.0, 1.0} <= verdicts if label is None else name == label
        if wanted and step in (None, when):
            return group
    if label is None and step is None:
        return 0
    some = ", ".join(map(repr, dict.fromkeys(columns.labels[:5])))
    where = "" if step is None else f" at step {step}"
    if step is not None and step not in columns.steps:
        there = sorted({when for when in columns.steps if when is not None})
        steps = ", ".join(map(str, there[:10])) + (", …" if len(there) > 10 else "")
        raise InputError(
            f"--step is {step}; " + (f"the steps are {steps}" if there else "there are no steps")
        )
    wanted_text = "no mixed group" if label is None else f"no group {label!r}"
    raise InputError(f"{wanted_text}{where}; the first groups are {some}")


def _only(dump: Dump, columns: Columns, group: int) -> Columns:
    start, stop = columns.starts_g[group], columns.starts_g[group + 1]
    rollouts = columns.rollouts.slice(start, stop - start)
    one = Dump(
        rollouts, dump.unit, dump.token_ids, dump.texts, dump.tolerance, [], made_ids=dump.made_ids
    )
    return columns_of(one)


def _equal(values: np.ndarray, wanted: float) -> np.ndarray:
    equal: np.ndarray = np.isnan(values) if np.isnan(wanted) else values == wanted
    return equal


def _shaded(
    ids_t: list[int],
    credit_t: np.ndarray,
    texts: dict[int, bytes | None],
    largest: float,
) -> Text:
    """Tokens with backgrounds; those that make up one character together share the strongest."""
    from rich.text import Text

    line = Text()
    pending, strongest = b"", 0.0
    for place, (token_id, credit) in enumerate(zip(ids_t, credit_t.tolist(), strict=True)):
        piece = texts[token_id]
        if piece is None:  # only its number is known; what was begun is no character any more
            begun = _printable_lines(pending.decode(errors="replace"))
            line.append(begun, style=_style(strongest / largest))
            line.append(f"⟨{token_id}⟩ ", style=_style(credit / largest))
            pending, strongest = b"", 0.0
            continue
        pending += piece
        strongest = max(strongest, credit, key=abs)
        try:
            text = pending.decode()
        except UnicodeDecodeError:
            if len(pending) < 8 and place + 1 < len(ids_t):
                continue
            text = pending.decode(errors="replace")
        line.append(_printable_lines(text), style=_style(strongest / largest))
        pending, strongest = b"", 0.0
    return line


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def _style(share: float) -> str:
    """A background between black and the full shade; none for 0."""
    if share == 0:
        return ""
    strength = 0.25 + 0.75 * min(1.0, abs(share))
    red, green, blue = (round(strength * part) for part in (FOR if share > 0 else AGAINST))
    return f"white on rgb({red},{green},{blue})"
