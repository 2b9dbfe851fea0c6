"""Rollouts of each tool in the shape that its source or documentation gives, and what is read.

`tests/cases/tools.jsonl` has a line for each: what the tool is called, the name of the file, its
rows, how many groups come out, and each rollout's fields.
"""

import json
from pathlib import Path
from typing import Any

LINES = Path(__file__).parents[1].joinpath("cases/tools.jsonl").read_text(encoding="utf-8")
TOOLS = {f"{case['title']} {case['file']}": case for case in map(json.loads, LINES.splitlines())}
"""By how it is called and what its file is called."""


def rows(tool: str) -> list[dict[str, Any]]:
    return list(TOOLS[tool]["rows"])
