"""An estimator of one's own in the place of a `KTAEConfig`: a function from rollouts to terms."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from ktae.batch import (
    UNKNOWN,
    as_array,
    bad_token_id,
    describe,
    is_tensor,
    make_batch,
    on_host,
)
from ktae.config import LARGEST, MAX_TOKEN_ID, KTAEConfig
from ktae.errors import InputError
from ktae.estimator import key_token_values

TermFunction = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]
"""`function(token_ids, mask, correct, groups) -> terms`, in NumPy.

It gets (n, T) int64 token ids, (n, T) bool mask, (n,) bool correctness and (n,) integer groups of
the n rollouts that can be evidence: those of known correctness with an unmasked token. Rows of a
group need not be adjacent, sizes may differ, groups may be all correct or all incorrect, and ids at
masked positions may be anything. It gives (n, T) numbers, an array or a tensor, which are added to
the rollout advantages at their tokens; what it gives at masked positions is not looked at."""

Estimator = KTAEConfig | TermFunction
"""Settings of ktae's own estimator, or a function."""

SIGNATURE = "(token_ids, mask, correct, groups) -> terms"


def check_estimator(name: str, estimator: Any, *, otherwise: str = "") -> None:
    """Raise an InputError unless it is a `KTAEConfig` or can be called as a `TermFunction`."""
    if isinstance(estimator, KTAEConfig):
        return
    expected = f"expected a KTAEConfig, or a function {SIGNATURE}{otherwise}"
    if not callable(estimator):
        raise InputError(f"{name} is {estimator!r}; {expected}")
    try:
        signature = inspect.signature(estimator)
    except ValueError:  # some compiled functions have none
        return
    try:
        signature.bind(*"four")
    except TypeError:
        raise InputError(
            f"{name} is {_name(estimator)}{signature}, which does not take four arrays; {expected}"
        ) from None


def takes_scores(estimator: Estimator | None) -> TypeGuard[KTAEConfig]:
    """Whether `correct` may be graded scores: if a config says so. Functions get verdicts."""
    return isinstance(estimator, KTAEConfig) and estimator.graded


def estimator_terms(
    estimator: Estimator,
    token_ids: Any,
    mask: Any,
    correct: Any,
    groups: Any,
    *,
    tokenizer: Any = None,
) -> Any:
    """Terms of a config or of a function; what trainers and measurements call.

    Args:
        estimator: with a config this is `ktae.key_token_values`. A function is called once, on the
            host, wherever the arrays are; not at all if no rollout can be evidence.
        token_ids: as in `ktae.key_token_values`.
        mask: as there.
        correct: as there; with a function 0, 1 and NaN.
        groups: as there.
        tokenizer: for a config's units that are made of text.

    Returns:
        (B, T) float32 of the type and on the device of `token_ids`; 0 where masked, and where a
        function gets no row: unknown correctness.

    Raises:
        InputError: (a ValueError) the arrays do not fit, or what the function gave does not.
    """
    if isinstance(estimator, KTAEConfig):
        return key_token_values(token_ids, mask, correct, groups, estimator, tokenizer=tokenizer)
    check_estimator("estimator", estimator)
    terms_bt = _function_terms(estimator, *map(on_host, (token_ids, mask, correct, groups)))
    if is_tensor(token_ids):
        return sys.modules["torch"].from_numpy(terms_bt).to(token_ids.device)
    return terms_bt


def _function_terms(
    function: TermFunction, token_ids: Any, mask: Any, correct: Any, groups: Any
) -> np.ndarray:
    batch = make_batch(KTAEConfig.paper(), token_ids, mask, correct, groups)
    mask_bt = np.not_equal(batch.mask, 0)
    terms_bt = np.zeros(mask_bt.shape, dtype=np.float32)
    out_of_range = np.argwhere(mask_bt & ((batch.token_ids < 0) | (batch.token_ids > MAX_TOKEN_ID)))
    if len(out_of_range):
        raise bad_token_id(batch.token_ids, *out_of_range[0])
    rows = np.flatnonzero((batch.correct != UNKNOWN) & mask_bt.any(axis=1))
    if not len(rows):
        return terms_bt
    ids, mask, correct = batch.token_ids[rows], mask_bt[rows], batch.correct[rows] == 1
    labels, groups = np.unique(as_array("groups", groups)[rows], return_inverse=True)
    # Copies of the mask and the groups: a function that writes into its arguments spoils nothing.
    found = function(ids.astype(np.int64), mask.copy(), correct.copy(), groups.copy())
    terms = _checked_terms(_name(function), found, mask)
    bad = np.argwhere(~(np.abs(terms) <= LARGEST))
    if len(bad):
        row, column = bad[0]
        own = groups == groups[row]
        raise InputError(
            f"{_name(function)} gave {terms[row, column]} for token {ids[row, column]} of rollout "
            f"{rows[row]} in group {labels[groups[row]]} ({correct[own].sum()} of {own.sum()} "
            f"correct); expected a finite number within ±{LARGEST:g}"
        )
    terms_bt[rows] = terms
    return terms_bt


def _checked_terms(name: str, found: Any, mask: np.ndarray) -> np.ndarray:
    """(n, T) float64, 0 where masked, of what a function gave."""
    array = as_array(f"what {name} gave", on_host(found))
    if array.shape != mask.shape or array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} gave {describe(array)}; expected numbers of shape {mask.shape}, one for each "
            "token of the rollouts that it was called with"
        )
    return np.where(mask, array, 0).astype(np.float64)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
