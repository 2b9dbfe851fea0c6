"""Typed YAML files: read one as a mapping, and say what is wrong with it in the user's words."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
import yaml

from ktae.errors import InputError, expected_one_of, one_line
from ktae.files.text import require_text

BAD_YAML = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What PyYAML raises: ValueError for a date that is none, LookupError and the like for a tag such
as `!!bool` before something else, RecursionError for deep nesting."""
MAX_VALUES = 100_000
MAX_DEPTH = 100
"""Of a typed file; what an anchor stands for counts each time. A few lines of anchors can spell
more values than there are atoms, or a list that holds itself."""


class Section(pydantic.BaseModel):
    """Part of a typed file: frozen, no unknown keys, finite numbers."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,  # estimators are values of their own
    )


class _GivenTwice(Exception):
    """A mapping has a key twice, of which YAML's own reader would silently keep the last."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe one, which refuses a key that is given twice."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            is_merge = key.tag == "tag:yaml.org,2002:merge"  # "<<", which stands for no value
            name = key.value if is_merge else self.construct_object(key, deep=True)
            line = key.start_mark.line + 1
            if name in lines:
                raise _GivenTwice(
                    f"key {key.value!r:.60} is given twice, in line {lines[name]} and in line "
                    f"{line}; expected it once"
                )
            lines[name] = line
        return node


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file; `what` (`recipe`, `matrix`) begins the message of an error.

    Raises:
        InputError: no such file, broken YAML, or it holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read {what} {path}: it is not UTF-8 text") from None
    except ValueError as error:  # a path with a null byte
        raise InputError(f"cannot read {what} {str(path)!r}: {error}") from None
    content = parse_yaml(text, f"{what} {path}")
    if not isinstance(content, dict):
        raise InputError(f"{what} {path} holds {_kind(content)}; expected a mapping of keys")
    return content


def parse_yaml(text: str, where: str) -> Any:
    """What YAML says, made of plain values: text, finite numbers, true, false, null, and lists and
    mappings of such.

    Raises:
        InputError: it is not YAML, a mapping has a key twice, or it holds anything else; `where`
            begins the message.
    """
    try:
        content = _Loader(text).get_single_data()
    except _GivenTwice as error:
        raise InputError(f"{where}: {error}") from None
    except BAD_YAML as error:
        raise InputError(f"{where} is not YAML: {one_line(error)}") from None
    _require_plain(content, where)
    return content


def _require_plain(content: Any, where: str) -> None:
    seen, left = 0, [(content, 0)]
    while left:
        value, depth = left.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_VALUES:
            raise InputError(
                f"{where} holds more than {MAX_VALUES:,} values, or lists and mappings in each "
                f"other more than {MAX_DEPTH} deep"
            )
        if isinstance(value, dict):
            left += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, list):
            left += [(item, depth + 1) for item in value]
        elif isinstance(value, str):
            require_text(value, where)
        elif isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{where} holds {value}; expected finite numbers")
        elif value is not None and not isinstance(value, int | float):
            raise InputError(
                f"{where} holds {value!r:.60}, a {type(value).__name__}; expected text (in quotes, "
                "if it looks like something else), numbers, true, false, null, lists and mappings"
            )


def explain(error: pydantic.ValidationError, model: type[pydantic.BaseModel]) -> str:
    """All problems of a file of type `model`, each as `key: what is wrong`."""
    return "; ".join(_explain(problem, model) for problem in error.errors())


_IN_YAML = {
    "tuple_type": "a list, such as [a, b]",
    "dict_type": "settings, such as {key: value}",
    "model_type": "settings, such as {key: value}",
    "model_attributes_type": "settings, such as {key: value}",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-', a letter or digit first",
}
"""What pydantic says in terms of Python, by its type of error."""


def _explain(problem: Any, model: type[pydantic.BaseModel]) -> str:
    location = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        *parents, key = location
        keys, section = _walk(parents, model)
        hint = expected_one_of(section.model_fields, key)
        return f"unknown key {'.'.join([*keys, key])!r}; {hint}"
    where = ".".join(_walk(location, model)[0])
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    message = _IN_YAML.get(problem["type"], message)
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where else message
    if problem["type"] == "missing":
        return f"{where} is missing"
    return f"{where} is {problem['input']!r}; expected {message}"


def _walk(location: list[str], model: type[pydantic.BaseModel]) -> tuple[list[str], Any]:
    """The keys on the way to `location`, and the section there, if there is one.

    A part that is the tag of one of several forms of a value is no key.
    """
    keys: list[str] = []
    annotation: Any = model
    for part in location:
        form = _tagged(annotation, part)
        if form is not None:
            annotation = form
            continue
        keys.append(part)
        annotation = _within(annotation, part)
    return keys, _section(annotation)


def _tagged(annotation: Any, tag: str) -> Any:
    """The form of a value that has a tag; None if no form has it."""
    inside = typing.get_args(annotation)
    if pydantic.Tag(tag) in inside:
        return inside[0]
    return next(filter(None, (_tagged(one, tag) for one in inside)), None)


def _within(annotation: Any, part: str) -> Any:
    """The type of what is under the key or index `part`; None where nothing is known of it."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _within(typing.get_args(annotation)[0], part)
    section = _section(annotation)
    if section is not None:
        field = section.model_fields.get(part)
        return None if field is None else field.rebuild_annotation()
    inside = typing.get_args(annotation)
    return inside[1 if _is_mapping(annotation) else 0] if inside else None


def _section(annotation: Any) -> type[pydantic.BaseModel] | None:
    """The section itself, also of `Section | None` and of what stands in an `Annotated`."""
    for one in (annotation, *typing.get_args(annotation)):
        if (
            typing.get_origin(one) is not None
            and one is not annotation
            and (inner := _section(one))
        ):
            return inner
        if isinstance(one, type) and issubclass(one, pydantic.BaseModel):
            container = typing.get_origin(annotation)
            is_collection = isinstance(container, type) and issubclass(container, Mapping | tuple)
            return None if is_collection else one
    return None


def _is_mapping(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _kind(content: Any) -> str:
    return "nothing" if content is None else f"a {type(content).__name__}"
