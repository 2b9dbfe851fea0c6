"""The documentation's pages and their code blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str, language: str) -> list[str]:
    """The contents of a page's code blocks in a language, in order."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return [content for found, content in FENCE.findall(text) if found == language]
