"""Reading the code blocks of the documentation's pages."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"

_FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of the same or a higher level."""
    level = len(heading) - len(heading.lstrip("#"))
    start = text.index(f"\n{heading}\n") + len(heading) + 2
    following = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(_without_blocks(text), start)
    return text[start : following.start() if following else len(text)]


def blocks(text: str, language: str) -> list[str]:
    """The contents of the code blocks of a language, in order."""
    return [content for name, content in _FENCE.findall(text) if name == language]


def _without_blocks(text: str) -> str:
    """The text with its code blocks blanked: a comment there is no heading."""
    return _FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
