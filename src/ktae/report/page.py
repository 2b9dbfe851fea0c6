"""The page: a report's data, its style and its script in one file that loads nothing.

The data are small blocks of base64: compressed JSON and compressed integers. In the page a block
holds letters, digits, `+`, `/` and `=` and nothing else, so no text of a rollout can end a tag or
start one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from importlib import resources
from typing import Any

import numpy as np

from ktae.errors import InputError

SCRIPTS = (
    "data.js",
    "statistics.js",
    "text.js",
    "state.js",
    "filter.js",
    "search.js",
    "shade.js",
    "table.js",
    "card.js",
    "segments.js",
    "rollouts.js",
    "groups.js",
    "turns.js",
    "tokens_at.js",
    "picture.js",
    "contexts.js",
    "scatter.js",
    "tokens.js",
    "believe.js",
    "curves.js",
    "overview.js",
    "training.js",
    "compare.js",
    "main.js",
)
"""The parts of the page's one script, in order. They share one scope and load nothing."""

RELOAD = "reload.js"
"""A further part, for a page whose file is written anew while a run goes on."""

START = "start.js"
"""The last part, which draws the page."""


FIXED_POINT = 512
"""Log-probabilities and entropies are kept in steps of 1/512, within ±63.9; -32768 is "none"."""

DIGITS = 6
"""Significant digits of the numbers in JSON."""


def render(blocks: dict[str, str], title: str, *, reloads: bool = False) -> str:
    """The page as HTML: a file that loads nothing.

    Its content security policy names the hashes of its one script and one style sheet and allows
    nothing else: no other script, no connection, no image from elsewhere.

    Args:
        blocks: data by name, made by `json_block` and the functions beside it.
        title: of the browser's tab and the page's head.
        reloads: whether the page loads its own file again from time to time.

    Raises:
        InputError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError:
        raise InputError(
            "a report needs jinja2, which is not installed; pip install 'ktae[report]'"
        ) from None
    files = resources.files("ktae.report") / "web"
    style = (files / "page.css").read_text(encoding="utf-8")
    names = [*SCRIPTS, *([RELOAD] if reloads else []), START]
    parts = [(files / name).read_text(encoding="utf-8") for name in names]
    script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string((files / "page.html").read_text(encoding="utf-8"))
    # The policy's expressions that allow exactly this script and this style.
    digests = [base64.b64encode(hashlib.sha256(x.encode()).digest()) for x in (script, style)]
    script_hash, style_hash = (f"'sha256-{digest.decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {script_hash}; style-src {style_hash}; "
        "img-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    return template.render(
        title=title, policy=policy, style=style, script=script, blocks=blocks, reloads=reloads
    )


def json_block(content: Any) -> str:
    """JSON in UTF-8, with arrays as lists and NaN as null."""
    text = json.dumps(_plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _block(text.encode())


def varint_block(numbers: np.ndarray) -> str:
    """Non-negative integers in LEB128: seven bits a byte, lowest first, the eighth says "more"."""
    left = numbers.astype(np.uint64)
    # Bytes of each number: one for every seven bits, at least one.
    size = np.maximum(1, np.ceil(np.log2(left + 1.0) / 7)).astype(np.int64)
    ends = np.cumsum(size)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    at = ends - size
    going = np.arange(len(left))
    # One byte of every number that still has bits left, all at once.
    while len(going):
        more = left[going] >= 128
        out[at[going]] = (left[going] & 127).astype(np.uint8) | (more.astype(np.uint8) << 7)
        left[going] >>= np.uint64(7)
        at[going] += 1
        going = going[more]
    return _block(out.tobytes())


def fixed_point_block(values: np.ndarray) -> str:
    """Numbers as little-endian int16 in units of 1 / FIXED_POINT; NaN as -32768."""
    scaled = np.clip(np.round(values.astype(np.float64) * FIXED_POINT), -32767, 32767)
    return _block(np.where(np.isnan(values), -32768, scaled).astype("<i2").tobytes())


def bytes_block(values: np.ndarray) -> str:
    """Numbers from -1 to 1 as int8 in units of 1 / 127; what is not 0 does not become 0."""
    scaled = np.round(values * 127)
    scaled = np.where((scaled == 0) & (values != 0), np.sign(values), scaled)
    return _block(scaled.astype(np.int8).tobytes())


def _block(content: bytes) -> str:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)  # what browsers can inflate
    return base64.b64encode(compressor.compress(content) + compressor.flush()).decode()


def _plain(content: Any) -> Any:
    """`content` in JSON's types, floats cut to `DIGITS`."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, np.ndarray):
        return _plain(content.tolist())
    if isinstance(content, float | np.floating):
        if not math.isfinite(content):
            return None
        short = float(f"{content:.{DIGITS}g}")
        return int(short) if short == int(short) else short
    if isinstance(content, np.bool_):
        return bool(content)
    return int(content) if isinstance(content, np.integer) else content
