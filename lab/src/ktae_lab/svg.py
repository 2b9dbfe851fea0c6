"""Figures as small SVG files: what a reader cannot see is not in them."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

from ktae.files.atomic import atomic_write

FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
_HIDDEN = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_PLACE = re.compile(r' (?:d|x|y|width|height|viewBox|transform|points)="[^"]*"')
_NUMBER = re.compile(r"-?\d+\.\d+")
_GROUP = re.compile(r"<g( [^>]*)?>|</g>")
_STYLE = re.compile(r' style="([^"]*)"')


def save(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, its text as text; the same figure is the same file.

    Raises:
        InputError: the file cannot be written.
    """
    from matplotlib import rc_context

    drawn = io.StringIO()
    with rc_context({"svg.hashsalt": "ktae", "svg.fonttype": "none"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    with atomic_write(path) as temporary:
        temporary.write_text(smaller(drawn.getvalue()), encoding="utf-8")


def smaller(svg: str) -> str:
    """matplotlib's SVG without comments, groups' names and invisible digits, each style
    written once: a tenth to a third of its size."""
    svg = _HIDDEN.sub("", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg).replace("<g/>", "")
    svg = re.sub(r"font-family: [^;\"]*(; )?", "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = _TAG.sub(lambda tag: " ".join(tag[0].split()), svg)
    svg = re.sub(r'<path d="M \S+ \S+ "[^>]*/>', "", svg)  # goes somewhere and draws nothing
    svg = _PLACE.sub(lambda place: _NUMBER.sub(_rounded, place[0]), svg)
    return re.sub(r">\s+<", ">\n<", _with_classes(_without_bare_groups(svg))).strip() + "\n"


def _without_bare_groups(svg: str) -> str:
    """Groups that have no attribute do nothing."""
    is_kept: list[bool] = []

    def group(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return tag[0] if is_kept.pop() else ""
        is_kept.append(bool(tag[1]))
        return tag[0] if tag[1] else ""

    return _GROUP.sub(group, svg)


def _rounded(number: re.Match[str]) -> str:
    """A tenth of a point, and a hundredth where it is the outline of something small."""
    value = float(number[0])
    return f"{round(value, 1 if abs(value) >= 10 else 2) + 0.0:g}"


def _with_classes(svg: str) -> str:
    """Styles that stand there more than once become rules, `.a` and so on."""
    counted = Counter(_STYLE.findall(svg))
    names = {style: f"s{i}" for i, (style, n) in enumerate(counted.most_common()) if n > 1}
    rules = [f".{name}{{{style}}}" for style, name in names.items()]
    rules.append(f"text{{font-family:{FONT}}}")
    svg = _STYLE.sub(
        lambda found: f' class="{names[found[1]]}"' if found[1] in names else found[0], svg
    )
    return svg.replace("</style>", "\n" + "\n".join(rules) + "\n</style>", 1)
