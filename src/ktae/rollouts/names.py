"""What fields and roles are called in files of any tool: `names.toml`, which explains its lists."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

_LISTS = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
NAMES = SimpleNamespace(**{name: tuple(x) for name, x in _LISTS["fields"].items()})
"""Names of a row's fields: `NAMES.responses` and so on."""
MESSAGES = SimpleNamespace(**_LISTS["messages"])
CONDITIONS = (*NAMES.splits, *NAMES.turn_numbers, *NAMES.conditions)
"""Rollouts that differ in these are seldom meant to be compared."""
_CERTAIN = {
    "response": (*NAMES.responses, *NAMES.turns),
    "group": (*NAMES.labels, *NAMES.prompts),
    "reward": ("reward", "correct", *NAMES.verdicts, *NAMES.rewards),
    "answer": NAMES.answers,
    "prompt": NAMES.prompts,
}
LIKELY = {name: (*x, *_LISTS["likely"][name]) for name, x in _CERTAIN.items()}
"""What a field may be called where its values fit."""
