"""Typed YAML files: plain values, whose types pydantic checks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from ktae.errors import InputError, expected_one_of, one_line, reason

Model = TypeVar("Model", bound=pydantic.BaseModel)


class Section(pydantic.BaseModel):
    """Part of a typed file: frozen, no unknown keys, finite numbers."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,  # estimators are values of their own
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def name_unknown_keys(cls, content: Any) -> Any:
        """Say which key may have been meant."""
        for key in content if isinstance(content, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(f"unknown key {key!r}; {expected_one_of(cls.model_fields, key)}")
        return content


SCALARS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}
"""What a word without quotes is, and how it may begin: YAML 1.2's core schema, in decimals alone.
PyYAML reads 1.1, to which `yes` is true, `1:30` is 90, `010` is 8 and `1e-6` is text."""


class _Dumper(yaml.SafeDumper):
    """What it writes is read as it was."""


class _Loader(yaml.SafeLoader):
    def construct_yaml_int(self, node: Any) -> int:
        """Decimals: a 0 at the beginning means nothing."""
        return int(self.construct_scalar(node))

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Refuse a key that is given twice, of which YAML's own reader keeps the last."""
        node = super().compose_mapping_node(anchor)
        names = [key.value for key, _ in node.value]
        for i, name in enumerate(names):
            if isinstance(name, str) and name in names[:i]:
                mark = node.value[i][0].start_mark
                raise yaml.composer.ComposerError(problem_mark=mark, problem=f"key {name!r} twice")
        return node


for resolver in (_Loader, _Dumper):
    resolver.yaml_implicit_resolvers = {}
    for name, (pattern, first) in SCALARS.items():
        word = re.compile(f"^(?:{pattern})$")
        resolver.add_implicit_resolver(f"tag:yaml.org,2002:{name}", word, list(first))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def dump_yaml(content: Any, **settings: Any) -> str:
    """Plain values as YAML; `settings` are PyYAML's."""
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, **settings)
    return text


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file; `what` (`recipe`, `matrix`) begins the message of an error."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path with a null byte
        raise InputError(f"cannot read {what} {str(path)!r}: {reason(error)}") from None
    content = parse_yaml(text, f"{what} {path}")
    if not isinstance(content, dict):
        raise InputError(f"{what} {path} holds {content!r:.60}; expected a mapping of keys")
    return content


def parse_yaml(text: str, where: str) -> Any:
    """What YAML says, made of what JSON has: text, finite numbers, true, false, null, lists and
    mappings."""
    try:
        content = _Loader(text).get_single_data()
        # JSON has no dates, bytes, sets, infinities or circles: what it cannot write is refused.
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except Exception as error:  # PyYAML stumbles over odd tags with errors of many types
        raise InputError(f"{where} is not YAML of plain values: {one_line(error)}") from None
    return content


def validated(model: type[Model], content: Mapping[str, Any], where: str) -> Model:
    """The content as a typed file of that model; errors are `where` and what pydantic says."""
    try:
        return model.model_validate(content)
    except pydantic.ValidationError as error:
        problems = []
        for problem in error.errors(include_url=False):
            # A part in brackets is the form of a value that has several, and no key.
            keys = [str(part) for part in problem["loc"] if not str(part).startswith("(")]
            message = problem["msg"].removeprefix("Value error, ")
            problems.append(": ".join(filter(None, (".".join(keys), message))))
        raise InputError(f"{where}: {'; '.join(problems)}") from None
