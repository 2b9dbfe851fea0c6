"""One group with the credit of every token: in a terminal, through a pipe, and as a picture."""

from __future__ import annotations

import dataclasses
import html
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.style import Style
from rich.text import Text

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import Estimator
from ktae.estimators.transforms import ignored_by
from ktae.files import plots
from ktae.files.atomic import write_text
from ktae.files.text import counted, number, printable, visible
from ktae.report import believing, scoring
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump
from ktae.report.units import find_units
from ktae.rollouts.groups import take_rows
from ktae.tables import ngrams_of

COLUMNS, LINES = 96, 60  # characters of a picture's line, and lines of a response


class Palette(NamedTuple):
    """Backgrounds from hardly any to the full shade; also the colour-blind can tell the two."""

    ink: str
    ground: int  # red, green and blue alike: black or white
    least: float
    full: tuple[tuple[int, int, int], tuple[int, int, int]]  # toward a correct answer, against it

    def style(self, share: float) -> str:
        """The style of a share of the largest credit; none for 0."""
        if share == 0:
            return ""
        strength = self.least + (1 - self.least) * min(1.0, abs(share))
        parts = (round(self.ground + strength * (x - self.ground)) for x in self.full[share < 0])
        return f"{self.ink} on #{bytes(parts).hex()}"


TERMINAL = Palette("white", 0, 0.25, ((28, 108, 200), (200, 95, 0)))
PAPER = Palette("#15181e", 255, 0.12, ((88, 170, 255), (255, 161, 77)))


class ScoredGroup(NamedTuple):
    """One group of a dump, and its credit; a notebook shows its tokens in colours."""

    frame: Frame  # with this group alone
    credit_n: np.ndarray  # (N,) of its tokens, rollout after rollout
    is_mixed: bool  # whether both correct and incorrect rollouts have a token that counts
    estimator: Estimator
    name: str  # what the estimator is called

    def __repr__(self) -> str:
        return f"<group {self.frame.names[0]!r}, credit of {self.name}>"

    def _repr_html_(self) -> str:
        return as_html(self)

    @property
    def largest(self) -> float:
        """The largest |credit|, which has the full shade."""
        return float(np.abs(self.credit_n).max(initial=0)) or 1.0

    def rollouts(self) -> list[tuple[int, str]]:
        """Each rollout's row and verdict; the correct ones first, those without a verdict last."""
        names = {1.0: "correct", 0.0: "incorrect"}
        verdicts = [names.get(x, "unknown") for x in self.frame.correct_b.tolist()]
        return sorted(enumerate(verdicts), key=lambda pair: pair[1])  # as the alphabet has it

    def tokens(self, row: int) -> list[tuple[int, bytes | None, float]]:
        """The id, the bytes and the credit of each token of a rollout."""
        dump, span = self.frame.dump, self.frame.span(row)
        which_t = self.frame.which_n[span]
        texts = [dump.texts[which] for which in which_t.tolist()]
        ids = dump.token_ids[which_t].tolist()
        return list(zip(ids, texts, self.credit_n[span].tolist(), strict=True))


def scored_group(
    dump: Dump,
    label: str | None = None,
    step: int | None = None,
    estimator: AnEstimator | None = None,
) -> ScoredGroup:
    """A group of the dump with the credit of its tokens: by default the one of most evidence.

    The estimator is by default the one that a report is coloured by (`ktae.report.believing`).
    """
    frame = frame_of(dump)
    choice = believing.choose(frame, estimator, permutations=0)
    shown, labels = choice.estimator, frame.origins.label
    groups = [i for i, its_step in enumerate(frame.steps) if step in (None, its_step)]
    if not groups:
        steps = ", ".join(map(str, sorted({x for x in frame.steps if x is not None})))
        raise InputError(f"--step is {step}; the steps are {steps or 'not known':.80}")
    if label is None:
        units = find_units(frame, ngrams_of(shown) or ("token",), ignored_by(shown))
        named = [next(i for i in units.by_evidence.tolist() if i in groups)]
    else:
        named = [i for i in groups if label in (labels[i], frame.names[i])]
    if not named:
        listed = ", ".join(map(repr, dict.fromkeys(labels[i] for i in groups[:5])))
        where = "" if step is None else f" at step {step}"
        raise InputError(f"no group {label!r}{where}; the first groups are {listed}")
    rows = np.arange(*frame.starts_g[named[0] : named[0] + 2])
    frame = frame_of(dataclasses.replace(dump, rollouts=take_rows(frame.rollouts, rows)))
    scored = scoring.score(frame, shown)
    return ScoredGroup(frame, scored.credit_n, bool(scored.units.mixed_g[0]), shown, choice.name)


def parts_of(shown: ScoredGroup, palette: Palette | None) -> Iterator[Text]:
    """What is shown of a group: title, prompt, legend, and each rollout below its heading.

    Tokens are coloured by their credit; without a palette each has a line, after its credit.
    """
    frame, step = shown.frame, shown.frame.steps[0]
    title = "Group " + printable(frame.names[0].replace("\n", "↵"))
    yield Text(title + ("" if step is None else f", step {step}"), style="bold")
    if prompt := frame.of_groups("prompt")[0]:
        yield Text("\n".join(map(printable, prompt.splitlines())), style="dim")
    if not shown.is_mixed:
        zero = "" if shown.credit_n.any() else ": nothing to compare, all credit is 0"
        yield Text(f"Not both correct and incorrect responses{zero}.")
    if palette and shown.credit_n.any():
        toward, against = palette.style(1), palette.style(-1)
        legend = f"  credit of {shown.name}; the full shade is {shown.largest:.2f}"
        signs = (" toward a correct answer ", toward), " ", (" against it ", against)
        yield Text.assemble("\n", *signs, legend)
    for row, verdict in shown.rollouts():
        reward = "none" if np.isnan(frame.reward_b[row]) else f"{frame.reward_b[row]:g}"
        length = counted(int(frame.lengths_b[row]), frame.dump.word)
        yield Text(f"\n{verdict}, response {row + 1}: reward {reward}, {length}", style="bold")
        if palette:
            yield shaded(shown, row, palette)
            continue
        lines = (  # blanks and line ends are signs
            f"{number(credit, '+z.4f')}  "
            + (f"⟨{i}⟩" if piece is None else visible(piece.decode(errors="replace")))
            for i, piece, credit in shown.tokens(row)
        )
        yield Text("\n".join(lines))


def shaded(shown: ScoredGroup, row: int, palette: Palette) -> Text:
    """Tokens with backgrounds; those that make up one character together share the strongest."""
    line, begun, strongest, largest = Text(), b"", 0.0, shown.largest
    tokens = [*shown.tokens(row), (0, b"", 0.0)]
    for (token_id, piece, credit), (_, following, _) in itertools.pairwise(tokens):
        begun, strongest = begun + (piece or b""), max(strongest, credit, key=abs)
        # A token may end inside a character, which the next one goes on with.
        if piece is not None and following and following[0] & 0xC0 == 0x80:
            continue
        text = "\n".join(map(printable, begun.decode(errors="replace").split("\n")))
        text += f"⟨{token_id}⟩ " if piece is None else ""
        line.append(text, style=palette.style(strongest / largest))
        begun, strongest = b"", 0.0
    return line


def as_dict(shown: ScoredGroup) -> dict[str, Any]:
    """For JSON: the same rollouts, with the ids, texts and credit of their tokens."""
    frame = shown.frame
    rollouts = [
        {
            "rollout": row + 1,
            "verdict": verdict,
            "reward": float(frame.reward_b[row]),
            "advantage": float(frame.advantage_b[row]),
            "token_ids": None if frame.dump.unit == "words" else [i for i, _, _ in tokens],
            "tokens": [x if x is None else x.decode(errors="replace") for _, x, _ in tokens],
            "credit": [credit for _, _, credit in tokens],
        }
        for row, verdict in shown.rollouts()
        for tokens in [shown.tokens(row)]
    ]
    return {
        "group": frame.names[0],
        "step": frame.steps[0],
        "prompt": frame.of_groups("prompt")[0],
        "mixed": shown.is_mixed,
        "unit": frame.dump.unit,
        "estimator": scoring.described(shown.estimator),
        "rollouts": rollouts,
    }


Line = list[tuple[str, str]]  # of a picture: pieces of text, each with its background


def save(shown: ScoredGroup, path: Path) -> None:
    """Write a group's picture, in the form that the file's name ends with."""
    if path.suffix == ".html":
        write_text(path, f'<!doctype html>\n<meta charset="utf-8">\n{as_html(shown)}')
    elif path.suffix == ".tex":
        write_text(path, as_latex(shown))
    else:
        plots.save(as_figure(shown), path)


def _lines(shown: ScoredGroup) -> list[Line]:
    """The layout that all pictures share."""
    console, lines = Console(width=COLUMNS, color_system="truecolor"), list[Line]()
    for text in parts_of(shown, PAPER):
        rows = text.wrap(console, COLUMNS, overflow="fold")
        for row in rows[:LINES]:
            styles = [(x.text, x.style or Style()) for x in row.render(console, end="")]
            lines.append([(x, y.bgcolor.name if y.bgcolor else "none") for x, y in styles])
        if len(rows) > LINES:
            lines.append([(f"… {len(rows) - LINES:,} more lines", "none")])
    return lines


def as_html(shown: ScoredGroup) -> str:
    """A group's picture as an element of HTML."""
    span = '<span style="background:{}">{}</span>'.format
    lines = ("".join(span(y, html.escape(x)) for x, y in line) for line in _lines(shown))
    style = f"background:#ffffff;color:{PAPER.ink};padding:1rem;font:14px/1.5 monospace"
    style += ";print-color-adjust:exact;white-space:pre-wrap"
    body = "\n".join(lines)
    return f'<pre style="{style}">{body}</pre>\n'


LATEX = {
    **{sign: f"\\{sign}" for sign in "#$%&_{}"},
    **{x: x for x in "äöüÄÖÜßéèêëàâáçñóòôíìîúùûÉÈÀÇÑ"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "…": r"\dots{}", "␣": r"\textvisiblespace{}"},
    **{"⟨": r"\ensuremath{\langle}", "⟩": r"\ensuremath{\rangle}"},
    **{"↵": r"\ensuremath{\hookleftarrow}", " ": "~"},
}
"""Signs and letters beyond ASCII that pdflatex sets; others are written as their numbers."""

DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{xcolor,textcomp}
\usepackage[margin=1cm]{geometry}
\begin{document}
\setlength{\fboxsep}{0.5pt}\noindent\ttfamily\footnotesize
%s
\end{document}
"""


def as_latex(shown: ScoredGroup) -> str:
    """A LaTeX document; what stands between its `document` lines goes into any other."""

    def piece(text: str, colour: str) -> str:
        text = "".join(LATEX.get(x) or (x if x.isascii() else f"[U+{ord(x):04X}]") for x in text)
        if colour == "none":
            return text
        return rf"\colorbox[HTML]{{{colour.removeprefix('#').upper()}}}{{\strut {text}}}"

    lines = ("".join(piece(*x) for x in line) + r"\strut\\" for line in _lines(shown))
    return DOCUMENT % "\n".join(lines)


def as_figure(shown: ScoredGroup) -> Any:
    """A figure of matplotlib: a grid of characters."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    lines = _lines(shown)
    width, height = COLUMNS * 0.085 + 0.4, len(lines) * 0.19 + 0.4  # inches
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0.2 / width, 0.2 / height, 1 - 0.4 / width, 1 - 0.4 / height))
    axes.set(xlim=(0, COLUMNS), ylim=(len(lines), 0))
    axes.axis("off")
    font: dict[str, Any] = {"family": "monospace", "size": 10.15, "color": PAPER.ink}
    for y, line in enumerate(lines):
        x = 0
        for text, colour in line:
            axes.add_patch(Rectangle((x, y + 0.05), len(text), 0.9, color=colour, lw=0))
            # SVG drops spaces at both ends of a text.
            start = x + len(text) - len(text.lstrip())
            axes.text(start, y + 0.75, text.strip(), parse_math=False, **font)
            x += len(text)
    return figure
