"""One group for a terminal or a pipe: its rollouts, with the credit of every token."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator
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
        """Each rollout's row, verdict, and place among the tokens; the correct ones first."""
        for verdict, name in ((1.0, "correct"), (0.0, "incorrect"), (np.nan, "unknown")):
            for row in np.flatnonzero(_equal(self.columns.correct_b, verdict)).tolist():
                yield row, name, slice(*self.columns.offsets_b[row : row + 2].tolist())


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
    shown = _shown_here(as_estimator(estimator or dump.estimator or "paper"), asked=estimator)
    frame = frame_of(dump)
    columns = frame.columns(np.array([_find(frame, label, step)]))
    scored = summary.score(columns, shown)
    n_true, n_false = int(scored.n_true_g[0]), int(scored.n_false_g[0])
    return ScoredGroup(
        columns,
        scored.credit_n,
        _largest(shown, max(2, n_true + n_false), scored.credit_n),
        bool(n_true and n_false),
        dict(zip(dump.token_ids.tolist(), dump.texts, strict=True)),
        dump.unit,
        shown,
    )


def _shown_here(estimator: Estimator, asked: AnEstimator | None) -> Estimator:
    """The estimator, or that of its tables where a dump of rollouts lacks what it needs."""
    needs_more = estimator.needs_vocabulary or (asked is None and estimator.needs_policy)
    return table_estimator(estimator) if needs_more else estimator


def _largest(estimator: Estimator, n: int, credit_n: np.ndarray) -> float:
    """The |credit| of the full shade: what n rollouts may reach, or else what these do."""
    if in_tables(estimator) == estimator:
        return float(largest_credit(estimator, n))
    return float(np.abs(credit_n).max(initial=0)) or 1.0


def show_group(console: Console, shown: ScoredGroup) -> None:
    """Print the correct rollouts of a group, then the others.

    Tokens are coloured by their credit; where there are no colours, or only 16, each has a line of
    its own, after its credit.
    """
    from rich.text import Text

    columns = shown.columns
    in_colour = console.color_system in SHADES and not console.no_color
    when = "" if columns.steps[0] is None else f", step {columns.steps[0]}"
    console.print(Text(f"Group {printable(columns.labels[0])}{when}", style="bold"))
    prompt = columns.rollouts["prompt"][0].as_py()
    if prompt:
        console.print(Text(_printable_lines(prompt), style="dim"), soft_wrap=not in_colour)
    if not shown.is_mixed:
        zero = "" if shown.credit_n.any() else ": nothing to compare, all credit is 0"
        console.print(f"Not both correct and incorrect rollouts{zero}.", soft_wrap=True)
    if in_colour and shown.credit_n.any():
        console.print("Blue speaks for a correct answer, orange against it.", style="dim")
    for row, verdict, span in shown.rollouts():
        reward = columns.reward_b[row]
        head = f"\n{verdict}, rollout {row + 1}: reward "
        head += "none" if np.isnan(reward) else f"{reward:g}"
        head += f", {counted(int(columns.lengths_b[row]), shown.unit.removesuffix('s'))}"
        console.print(Text(head, style="bold"))
        ids_t, credit_t = columns.ids_n[span].tolist(), shown.credit_n[span]
        if in_colour:
            console.print(_shaded(ids_t, credit_t, shown.texts, shown.largest), soft_wrap=False)
            continue
        lines = (
            f"{credit:+.4f}  {_alone(token_id, shown.texts)}"
            for token_id, credit in zip(ids_t, credit_t.tolist(), strict=True)
        )
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


def _find(columns: Frame, label: str | None, step: int | None) -> int:
    if label is not None and label not in columns.labels:
        found = _by_prompt(columns, label, step)
        if found is not None:
            return found
    for group, (name, when) in enumerate(zip(columns.labels, columns.steps, strict=True)):
        rows = slice(columns.starts_g[group], columns.starts_g[group + 1])
        verdicts = set(columns.correct_b[rows].tolist())
        wanted = {0.0, 1.0} <= verdicts if label is None else name == label
        if wanted and step in (None, when):
            return group
    if label is None and step is None:
        return 0
    near = difflib.get_close_matches(label or "", dict.fromkeys(columns.labels), n=3)
    prompts = dict(zip(reversed(columns.labels), reversed(_prompts(columns)), strict=True))
    there = ", ".join(
        f"{one!r} ({prompts[one]!r:.60})" if prompts.get(one) else repr(one)
        for one in near or dict.fromkeys(columns.labels[:5])
    )
    where = "" if step is None else f" at step {step}"
    if step is not None and step not in columns.steps:
        known = sorted({when for when in columns.steps if when is not None})
        steps = ", ".join(map(str, known[:10])) + (", …" if len(known) > 10 else "")
        raise InputError(
            f"--step is {step}; " + (f"the steps are {steps}" if known else "there are no steps")
        )
    wanted_text = "no mixed group" if label is None else f"no group {label!r}"
    which = "there is" if near else "the first groups are"
    raise InputError(f"{wanted_text}{where}; {which} {there}")


def _by_prompt(columns: Frame, wanted: str, step: int | None) -> int | None:
    """The first group with this prompt, or with the only one that begins so, at that step; None if
    there is none.

    Raises:
        InputError: several prompts begin so.
    """
    groups: dict[str, int] = {}
    for group, (prompt, when) in enumerate(zip(_prompts(columns), columns.steps, strict=True)):
        if prompt is not None and step in (None, when):
            groups.setdefault(prompt, group)
    if wanted in groups:
        return groups[wanted]
    found = [prompt for prompt in groups if wanted and prompt.startswith(wanted)]
    if len(found) > 1:
        some = ", ".join(f"{columns.labels[groups[x]]!r} ({x!r:.60})" for x in found[:5])
        raise InputError(
            f"--group {wanted!r:.60} begins the prompts of {len(found):,} groups; expected one of "
            f"them: {some}"
        )
    return groups[found[0]] if found else None


def _prompts(columns: Frame) -> list[str | None]:
    """Each group's prompt: that of its first rollout."""
    first = columns.order_b[columns.starts_g[:-1]]
    prompts: list[str | None] = columns.rollouts["prompt"].take(first).to_pylist()
    return prompts


def _equal(values: np.ndarray, wanted: float) -> np.ndarray:
    equal: np.ndarray = np.isnan(values) if np.isnan(wanted) else values == wanted
    return equal


def _alone(token_id: int, texts: dict[int, bytes | None]) -> str:
    """A token on a line of its own: blanks and line ends are signs, so that columns stay."""
    piece = texts[token_id]
    return f"⟨{token_id}⟩" if piece is None else visible(piece.decode(errors="replace"))


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
