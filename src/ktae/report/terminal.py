"""One group for a terminal or a pipe: its rollouts, with the credit of every token."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, to_text
from ktae.files.text import counted, printable, visible
from ktae.report import scoring, summary
from ktae.report.columns import Columns, Frame, frame_of
from ktae.report.inputs import Dump, require_rollouts
from ktae.tables import in_tables, largest_credit, table_estimator

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FOR = (28, 108, 200)
AGAINST = (200, 95, 0)
"""Red, green and blue of the full shade; white text reads on both, also for the colour-blind."""

SHADES = ("256", "truecolor")
"""What Rich calls terminals that can show shades of them."""


class ScoredGroup(NamedTuple):
    """One group of a dump, and its credit."""

    columns: Columns
    """Of this group alone."""
    credit_n: np.ndarray
    """(N,) of its tokens, rollout after rollout."""
    largest: float
    """The largest |credit| that there can be in the group."""
    is_mixed: bool
    """Whether both correct and incorrect rollouts have a token that counts."""
    texts: dict[int, bytes | None]
    """By token id; None where only the number is known."""
    unit: str
    """As in `Dump`."""
    estimator: Estimator
    """Whose credit it is."""

    def rollouts(self) -> Iterator[tuple[int, str, slice]]:
        """Each rollout's row, verdict, and place among the tokens; the right ones first."""
        correct_b, offsets_b = self.columns.correct_b, self.columns.offsets_b
        kinds = (correct_b == 1, correct_b == 0, np.isnan(correct_b))
        for name, rows in zip(("right", "wrong", "unknown"), kinds, strict=True):
            for row in np.flatnonzero(rows).tolist():
                yield row, name, slice(*offsets_b[row : row + 2].tolist())

    def title(self) -> str:
        """The group's label and step, on one line."""
        label = printable(self.columns.labels[0].replace("\n", "↵"))
        step = self.columns.steps[0]
        return f"Group {label}" + ("" if step is None else f", step {step}")

    def name(self) -> str:
        """The estimator's."""
        return f"credit of {to_text(self.estimator)}"

    def heading(self, row: int, verdict: str) -> str:
        """A rollout's number, verdict, reward and length."""
        reward = self.columns.reward_b[row]
        text = f"{verdict}, rollout {row + 1}: reward "
        text += "none" if np.isnan(reward) else f"{reward:g}"
        unit = "word" if self.unit == "words" else "token"
        return f"{text}, {counted(int(self.columns.lengths_b[row]), unit)}"


def scored_group(
    dump: Dump,
    label: str | None = None,
    step: int | None = None,
    estimator: AnEstimator | None = None,
) -> ScoredGroup:
    """A group of the dump with the credit of its tokens.

    Args:
        dump: the rollouts.
        label: the group; the first mixed one by default.
        step: its training step; the first that has the group by default.
        estimator: the one that the run was trained with by default, or the paper's.

    Raises:
        InputError: there is no such group, or no rollout at all; the estimator needs
            log-probabilities or entropies.
    """
    require_rollouts(dump)
    shown = as_estimator(estimator or dump.estimator or "paper")
    # A dump of rollouts lacks what some estimators need; then their tables are shown.
    if shown.needs_policy:
        shown = table_estimator(shown)
    frame = frame_of(dump)
    columns = frame.columns(np.array([_find(frame, label, step)]))
    texts = dump.vocabulary if shown.needs_vocabulary else None
    scored = summary.score(columns, shown, texts)
    n_true, n_false = int(scored.n_true_g[0]), int(scored.n_false_g[0])
    # The full shade: what n rollouts may reach, or else what these do.
    largest = float(np.abs(scored.credit_n).max(initial=0)) or 1.0
    if in_tables(shown) == shown:
        largest = float(largest_credit(shown, max(2, n_true + n_false)))
    return ScoredGroup(
        columns,
        scored.credit_n,
        largest,
        bool(n_true and n_false),
        dict(zip(dump.token_ids.tolist(), dump.texts, strict=True)),
        dump.unit,
        shown,
    )


def show_group(console: Console, shown: ScoredGroup) -> None:
    """Print the right rollouts of a group, then the others.

    Tokens are coloured by their credit; where there are no colours, or only 16, each has a line of
    its own, after its credit.
    """
    from rich.text import Text

    columns = shown.columns
    in_colour = console.color_system in SHADES and not console.no_color
    console.print(Text(shown.title(), style="bold"))
    prompt = columns.rollouts["prompt"][0].as_py()
    if prompt:
        safe = "\n".join(printable(line) for line in prompt.split("\n"))
        console.print(Text(safe, style="dim"), soft_wrap=not in_colour)
    if not shown.is_mixed:
        zero = "" if shown.credit_n.any() else ": nothing to compare, all credit is 0"
        console.print(f"Not both right and wrong rollouts{zero}.", soft_wrap=True)
    if in_colour and shown.credit_n.any():
        console.print(
            f"Blue speaks for a right answer, orange against it ({shown.name()}).", style="dim"
        )
    for row, verdict, span in shown.rollouts():
        console.print(Text(f"\n{shown.heading(row, verdict)}", style="bold"))
        if in_colour:
            console.print(shaded(shown, span), soft_wrap=False)
            continue
        ids_t, credit_t, lines = columns.ids_n[span].tolist(), shown.credit_n[span], []
        for token_id, credit in zip(ids_t, credit_t.tolist(), strict=True):
            piece = shown.texts[token_id]
            # Blanks and line ends are signs, so that a token has one line.
            text = f"⟨{token_id}⟩" if piece is None else visible(piece.decode(errors="replace"))
            lines.append(f"{credit:+.4f}  {text}")
        console.out("\n".join(lines), highlight=False)


def as_dict(shown: ScoredGroup) -> dict[str, Any]:
    """For JSON: the same rollouts, with the ids, texts and credit of their tokens."""
    columns = shown.columns
    rollouts = []
    for row, verdict, span in shown.rollouts():
        ids_t = columns.ids_n[span].tolist()
        pieces = [shown.texts[token_id] for token_id in ids_t]
        rollouts.append(
            {
                "rollout": row + 1,
                "verdict": verdict,
                "reward": float(columns.reward_b[row]),
                "advantage": float(columns.advantage_b[row]),
                "token_ids": None if shown.unit == "words" else ids_t,
                "tokens": [x if x is None else x.decode(errors="replace") for x in pieces],
                "credit": shown.credit_n[span].tolist(),
            }
        )
    return {
        "group": columns.labels[0],
        "step": columns.steps[0],
        "prompt": columns.rollouts["prompt"][0].as_py(),
        "mixed": shown.is_mixed,
        "unit": shown.unit,
        "estimator": scoring.described(shown.estimator),
        "rollouts": rollouts,
    }


def _find(frame: Frame, label: str | None, step: int | None) -> int:
    """The group that is asked for, at the first step that has it.

    Raises:
        InputError: there is no such step, group or prompt, or several prompts begin so.
    """
    groups = [i for i, when in enumerate(frame.steps) if step in (None, when)]
    if not groups:
        known = sorted({when for when in frame.steps if when is not None})
        steps = ", ".join(map(str, known[:10])) + (", …" if len(known) > 10 else "")
        raise InputError(
            f"--step is {step}; " + (f"the steps are {steps}" if known else "there are no steps")
        )
    if label is None:
        right_g, wrong_g = (frame.sum_rollouts(frame.correct_b == x) for x in (1, 0))
        return next((i for i in groups if right_g[i] and wrong_g[i]), groups[0])
    by_label = {frame.labels[i]: i for i in reversed(groups)}
    if label in by_label:
        return by_label[label]
    prompts = frame.of_groups("prompt")
    by_prompt = {x: i for i in reversed(groups) if (x := prompts[i]) is not None}
    if label in by_prompt:
        return by_prompt[label]
    begun = sorted(i for prompt, i in by_prompt.items() if label and prompt.startswith(label))
    if len(begun) == 1:
        return begun[0]
    near = [by_label[x] for x in difflib.get_close_matches(label, by_label)]
    some = begun or near or sorted(by_label.values())
    there = ", ".join(
        f"{frame.labels[i]!r} ({prompts[i]!r:.60})" if prompts[i] else repr(frame.labels[i])
        for i in some[:5]
    )
    if begun:
        raise InputError(
            f"--group {label!r:.60} begins the prompts of {len(begun):,} groups; expected one of "
            f"them: {there}"
        )
    where = "" if step is None else f" at step {step}"
    which = "there is" if near else "the first groups are"
    raise InputError(f"no group {label!r}{where}; {which} {there}")


def shaded(shown: ScoredGroup, span: slice, style: Callable[[float], str] | None = None) -> Text:
    """Tokens with backgrounds; those that make up one character together share the strongest.

    Args:
        shown: the group.
        span: a rollout's place among its tokens.
        style: the background of a share of the largest credit; the terminal's by default.
    """
    from rich.text import Text

    style = style or _style

    def append(text: str, credit: float) -> None:
        lines = "\n".join(printable(x) for x in text.split("\n"))
        line.append(lines, style=style(credit / shown.largest))

    line, ids_t = Text(), shown.columns.ids_n[span].tolist()
    pending, strongest = b"", 0.0
    for place, (token_id, credit) in enumerate(
        zip(ids_t, shown.credit_n[span].tolist(), strict=True)
    ):
        piece = shown.texts[token_id]
        if piece is None:  # only its number is known; what was begun is no character any more
            append(pending.decode(errors="replace"), strongest)
            line.append(f"⟨{token_id}⟩ ", style=style(credit / shown.largest))
            pending, strongest = b"", 0.0
            continue
        # A token may end inside a character: wait until the bytes so far are text. No character
        # has more than four bytes; after eight, these are none.
        pending += piece
        strongest = max(strongest, credit, key=abs)
        try:
            text = pending.decode()
        except UnicodeDecodeError:
            if len(pending) < 8 and place + 1 < len(ids_t):
                continue
            text = pending.decode(errors="replace")
        append(text, strongest)
        pending, strongest = b"", 0.0
    return line


def _style(share: float) -> str:
    """A background between black and the full shade; none for 0."""
    if share == 0:
        return ""
    strength = 0.25 + 0.75 * min(1.0, abs(share))
    red, green, blue = (round(strength * part) for part in (FOR if share > 0 else AGAINST))
    return f"white on rgb({red},{green},{blue})"
