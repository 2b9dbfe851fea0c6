"""What the sections of a recipe have in common: pydantic checks their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic
import yaml

from ktae.errors import InputError
from ktae.files.typed import NUMBERS

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


class _Dumper(yaml.SafeDumper):
    """Writes what `parse_yaml` reads as it was."""


_Dumper.add_implicit_resolver(*NUMBERS)


def dump_yaml(content: Any) -> str:
    """Plain values as YAML."""
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def validated(model: type[Model], content: Mapping[str, Any], where: str) -> Model:
    """The content as a typed file of that model; errors are `where` and what pydantic says."""
    try:
        return model.model_validate(content)
    except pydantic.ValidationError as error:
        problems = [
            # A part in brackets is the form of a value that has several, and no key.
            f"{'.'.join(str(y) for y in x['loc'] if not str(y).startswith('('))}: {x['msg']}"
            for x in error.errors()
        ]
        raise InputError(f"{where}: {'; '.join(problems)}") from None
