"""A finding on its way to the page, and what findings are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktae.report.changes import Change
from ktae.report.comparing import Compared
from ktae.report.data import Chip, Finding, Kind, Link, Tone
from ktae.report.frame import Frame
from ktae.report.marks import Marks
from ktae.report.regrading import Regraded
from ktae.report.summary import Scored, TokenNumbers

COUNT = "a count; nothing is estimated"

BY_GRADER = "by ktae's grader; either side may be wrong"


class Place(NamedTuple):
    """Where in a rollout something was found."""

    rollout: int
    """Its place in `Frame`."""
    token: int = -1
    """Where to look; -1: nowhere in particular."""
    why: str = ""


class Draft(NamedTuple):
    """A finding before it is known which rollouts the page holds."""

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
        """As the page has it; `place_b` is each rollout's place in the page, or -1."""
        shown = [place for place in self.places if place_b[place.rollout] >= 0]
        groups = [*self.groups] or sorted({int(frame.group_b[x.rollout]) for x in self.places})
        kind: Kind = "tokens" if self.chips else "rollouts" if self.places else "view"
        if groups and kind == "view":
            kind = "groups"
        link, example = self.link, None
        if link is None and kind in ("rollouts", "groups"):
            link = {"view": "rollouts", "finding": self.key}
        if shown:
            first = next((x for x in shown if x.token >= 0), shown[0])
            group = int(frame.group_b[first.rollout])
            example = {
                "view": "rollouts",
                "group": group,
                "rollout": first.rollout - int(frame.starts_g[group]),
                "token": max(0, first.token),
                "finding": self.key,
            }
        unit = frame.dump.unit
        return Finding(
            key=self.key,
            tone=self.tone,
            sentence=in_units(self.sentence, unit),
            sure=in_units(self.sure, unit),
            about=in_units(self.about, unit),
            title=in_units(self.title, unit),
            count=len(self.chips) or len(self.places) or len(groups),
            kind=kind,
            link=link,
            example=example,
            groups=groups,
            rollouts=[int(place_b[place.rollout]) for place in shown],
            tokens=[place.token for place in shown],
            why=[place.why for place in shown] if any(x.why for x in shown) else [],
            chips=list(self.chips),
        )


class Seen(NamedTuple):
    """What findings are made of."""

    frame: Frame
    scored: Scored
    tokens: TokenNumbers
    regraded: Regraded | None
    marks: Marks
    changes: list[Change]
    compared: Compared
    graded: int
    """Responses whose verdict is our grader's alone."""


def in_units(text: str, unit: str) -> str:
    """A sentence of the page about tokens, or about words where the dump was cut at words."""
    return text.replace("token", "word").replace("Token", "Word") if unit == "words" else text


def p_text(p: float) -> str:
    """As in "p = 0.04"."""
    return "p < .001" if p < 0.001 else f"p = {p:.2g}"


def share_of(n: int, total: int) -> str:
    """As in "3 of 1,200"."""
    return f"{n:,} of {total:,}"
