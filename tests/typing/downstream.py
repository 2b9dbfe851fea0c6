"""A user's own code, checked by `mypy --strict` against the installed package.

Not run, only read by the type checker (`make wheel-check`). What must be right is asserted with
`assert_type`; what must be wrong carries the error that it must give: an ignore that is not needed
is an error too.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import ktae
from ktae import CreditTable, Estimator, InputError
from ktae.estimators import KTAE, Scaled, preset


def scored(ids: NDArray[np.int64], mask: NDArray[np.bool_], rewards: list[float]) -> float:
    groups = [0] * len(rewards)
    estimator = KTAE(h3=0.0)
    assert_type(preset("paper"), Estimator)
    assert_type(Scaled(estimator, 2.0).factor, float)
    assert_type(estimator.h1, float)
    table = ktae.credit_table(ids, mask, [r > 0 for r in rewards], groups, estimator)
    assert_type(table, CreditTable)
    assert_type(ktae.__version__, str)
    # NumPy in, NumPy out; torch in, torch out: which of them a checker cannot know.
    assert_type(ktae.token_advantages(rewards, ids, mask, groups), Any)
    assert_type(ktae.token_credit(ids, mask, rewards, groups, {"estimator": "paper"}), Any)
    try:
        ktae.token_credit(ids, mask, rewards, groups)
    except InputError as error:
        raise SystemExit(str(error)) from error
    return float(table.credit.max())


def wrong(ids: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
    ktae.token_credit(ids, mask, [1.0], [0], vocabulary="one")  # type: ignore[arg-type]
    ktae.token_credit(ids, mask, [1.0], [0], 3)  # type: ignore[arg-type]
    ktae.token_advantages([1.0], ids, mask)  # type: ignore[call-arg]
    KTAE(h1="one")  # type: ignore[arg-type]
    KTAE().h1 = 2.0  # type: ignore[misc]
    print(ktae.credit_tables)  # type: ignore[attr-defined]
