"""Saved outputs, and what commands print of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_rows(path: Path, *rows: Any) -> Path:
    return write_lines(path, rows)


def cells(text: str, label: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


def rows(rights: list[int], reward: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            "benchmark": "own",
            "group": f"own/{i}",
            "response": rf"\boxed{{{i + 1 - right}}}",
            "answer": str(i),
        }
        | ({} if reward is None else {"reward": reward})
        for i, right in enumerate(rights)
    ]
