"""YAML of plain values."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from ktae.errors import InputError, one_line
from ktae.files.inputs import read_input

MAX_YAML = 1 << 17
"""Bytes of a YAML text: PyYAML reads about 30,000 a second."""
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
NUMBERS = ("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
"""1e-6, which PyYAML takes for text: YAML 1.1 wants 1.0e-6."""


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases: a few lines of them can stand for any number of values."""
        if self.check_event(yaml.AliasEvent):
            raise ValueError("an alias (*)")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key that is given twice, of which YAML's own reader keeps the last."""
        if len(names := Counter(str(key.value) for key, _ in node.value)) < len(node.value):
            raise ValueError(f"key {max(names, key=names.__getitem__)!r:.60} twice")
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(*NUMBERS)


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file; anything else is an InputError of `what` (`recipe`)."""
    text = read_input(path, largest=MAX_YAML).decode(errors="surrogateescape")
    content = parse_yaml(text, f"{what} {path}")
    if not isinstance(content, dict):
        raise InputError(f"{what} {path} holds {content!r:.60}; expected a mapping of keys")
    return content


def parse_yaml(text: str, where: str) -> Any:
    """What YAML says, made of what JSON has; there are no aliases."""
    try:
        if len(text) > MAX_YAML:
            raise ValueError(f"more than {MAX_YAML:,} characters")
        content = _Loader(text).get_single_data()
        # JSON has no dates, bytes, sets, infinities or circles: what it cannot write is refused.
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except Exception as error:  # PyYAML stumbles over odd tags with errors of many types
        raise InputError(f"{where} is not YAML of plain values: {one_line(error)}") from None
    return content
