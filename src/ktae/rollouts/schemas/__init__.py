"""The ways in which tools write rollouts, and which of them a row is written in.

They are data, in `tools.toml`, with functions (`converters`) for what paths cannot say.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from ktae.rollouts.schemas import converters
from ktae.rollouts.schemas.base import Schema
from ktae.rollouts.values import KINDS, Row

TOOLS = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))["tool"]
FUNCTIONS = [{k: getattr(converters, x[k]) for k in ("convert", "once") if k in x} for x in TOOLS]
SCHEMAS = tuple(Schema(**tool | named) for tool, named in zip(TOOLS, FUNCTIONS, strict=True))
"""In the order in which they are tried."""


def is_plain(row: Row) -> bool:
    """Whether a row has a group and a response, and so is what it says, whatever else it has."""
    return "group" in row and ("token_ids" in row or KINDS["said"](row.get("response")))


def detect(row: Row, likely: Schema | None = None) -> Schema | None:
    """The schema of a row, None for a plain one; `likely` is that of the row before."""
    schemas = SCHEMAS if likely is None else (likely, *SCHEMAS)
    return None if is_plain(row) else next((x for x in schemas if x.detects(row)), None)
