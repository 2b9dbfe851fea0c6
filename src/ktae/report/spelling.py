"""The text of a rollout in a report, as the bytes of its tokens."""

from __future__ import annotations

from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.rollouts import spelling


def spell(frame: Frame, dump: Dump, row: int) -> spelling.Spelling:
    """The spelling of one rollout of a dump; a token without text has none."""
    return spelling.spell(dump.texts, dump.which(frame.ids(row)))
