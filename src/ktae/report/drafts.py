"""A finding on its way to the page, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktae.files.text import visible
from ktae.report.data import Chip, Finding, Kind, Link, Tone
from ktae.report.frame import Frame

COUNT = "a count; nothing is estimated"


class Place(NamedTuple):
    """Where in a response something was found."""

    row: int
    """The response's place in `Frame`."""
    token: int = -1
    """Where to look; -1: nowhere in particular."""
    why: str = ""


class Draft(NamedTuple):
    """A finding before it is known which responses the page holds."""

    key: str
    tone: Tone
    title: str
    sentence: str
    sure: str
    about: str
    places: Sequence[Place] = ()
    groups: Sequence[int] = ()
    chips: Sequence[Chip] = ()
    link: Link | None = None

    def finished(self, frame: Frame, place_b: np.ndarray) -> Finding:
        """As the page has it; `place_b` is each response's place in the page, or -1."""
        shown = [place for place in self.places if place_b[place.row] >= 0]
        groups = [*self.groups] or sorted({int(frame.group_b[x.row]) for x in self.places})
        kind: Kind = "tokens" if self.chips else "rollouts" if self.places else "view"
        if groups and kind == "view":
            kind = "groups"
        link, example = self.link, None
        if link is None and kind in ("rollouts", "groups"):
            link = {"view": "rollouts", "finding": self.key}
        if shown:
            first = next((x for x in shown if x.token >= 0), shown[0])
            group = int(frame.group_b[first.row])
            number = first.row - int(frame.starts_g[group])
            place = {"group": group, "rollout": number, "token": max(0, first.token)}
            example = {"view": "rollouts", "finding": self.key, **place}
        return Finding(
            *(self.key, self.tone, self.sentence, self.sure, self.about, self.title),
            count=len(self.chips) or len(self.places) or len(groups),
            kind=kind,
            link=link,
            example=example,
            groups=groups,
            rollouts=[int(place_b[place.row]) for place in shown],
            tokens=[place.token for place in shown],
            why=[place.why for place in shown] if any(x.why for x in shown) else [],
            chips=list(self.chips),
        )


def chip(frame: Frame, which: int, about: str) -> Chip:
    """A token with what is said of it."""
    text = visible((frame.dump.texts[which] or b"").decode(errors="replace"))
    return Chip(int(frame.dump.token_ids[which]), text, about)


def percent(share: float) -> str:
    """As in "53.1 %"."""
    return f"{100 * share:.{0 if share in (0, 1) else 1}f} %"


def p_text(p: float) -> str:
    """As in "p = 0.04"."""
    return "p < .001" if p < 0.001 else f"p = {p:.2g}"


def share_of(n: int, total: int) -> str:
    """As in "3 of 1,200"."""
    return f"{n:,} of {total:,}"


def signed(number: float, form: str = ".2f") -> str:
    """As in "+5.50", with the sign that a minus has in print."""
    return f"{number:+z{form}}".replace("-", "−")
