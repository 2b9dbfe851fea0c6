"""A page's data as small blocks of base64: compressed JSON and compressed integers.

In the page a block holds letters, digits, `+`, `/` and `=` and nothing else, so no text of a
rollout can end a tag or start one.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import zlib
from typing import Any

import numpy as np

FIXED_POINT = 512
"""Log-probabilities and entropies are kept in steps of 1/512, within ±63.9; -32768 is "none"."""


def as_json(content: Any) -> str:
    """JSON in UTF-8, with floats of six digits and NaN as null."""
    text = json.dumps(_plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _block(text.encode())


def integers(numbers: np.ndarray) -> str:
    """Integers below 2^32: the lowest byte of all of them, then the next one of all, and so on."""
    return _block(numbers.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes())


def fixed_point(values: np.ndarray) -> str:
    """Numbers as little-endian int16 in units of 1 / FIXED_POINT; NaN as -32768."""
    scaled = np.clip(np.round(values.astype(np.float64) * FIXED_POINT), -32767, 32767)
    return _block(np.where(np.isnan(values), -32768, scaled).astype("<i2").tobytes())


def small(values: np.ndarray) -> str:
    """Numbers from -1 to 1 as int8 in units of 1 / 127; what is not 0 does not become 0."""
    scaled = np.round(values * 127)
    scaled = np.where((scaled == 0) & (values != 0), np.sign(values), scaled)
    return _block(scaled.astype(np.int8).tobytes())


def _block(content: bytes) -> str:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)  # what browsers can inflate
    return base64.b64encode(compressor.compress(content) + compressor.flush()).decode()


def _plain(content: Any) -> Any:
    """`content` in JSON's types."""
    if dataclasses.is_dataclass(content):
        return {x.name: _plain(getattr(content, x.name)) for x in dataclasses.fields(content)}
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float):
        return float(f"{content:.6g}") if math.isfinite(content) else None
    return content
