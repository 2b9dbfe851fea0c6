"""The public functions as the reference computes them: loops and dicts, slow and short."""

import functools
from typing import Any

import by_backend

from ktae.estimators import DEFAULT

credit_table = functools.partial(by_backend.credit_table, backend="naive")


def token_credit(
    token_ids: Any, mask: Any, correct: Any, groups: Any, credit: Any = DEFAULT, **options: Any
) -> Any:
    arrays = token_ids, mask, correct, groups
    return by_backend.token_credit(*arrays, credit, backend="naive", **options)


def token_advantages(*arrays: Any, credit: Any = DEFAULT, **options: Any) -> Any:
    return by_backend.token_advantages(*arrays, credit=credit, backend="naive", **options)
