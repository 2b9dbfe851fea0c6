"""What the sections of a recipe have in common: pydantic checks their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from ktae.errors import InputError

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
