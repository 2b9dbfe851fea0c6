"""The formulas of `ktae.statistics`, compiled."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from ktae import statistics
from ktae.backends._compiled import jit, kept
from ktae.statistics import Margins

# Compiled code calls compiled functions alone. So each gets the names of `ktae.statistics`, in
# which the functions are replaced by their compiled forms.
_names: dict[str, Any] = dict(vars(statistics))
for _name, _function in vars(statistics).items():
    if isinstance(_function, FunctionType) and _function.__module__ == statistics.__name__:
        _names[_name] = jit(FunctionType(_function.__code__, _names, _name))

association = _names["association"]
credit_of = _names["credit"]
direction_of = _names["direction"]
group_totals = _names["totals"]
fisher_p_value = kept(statistics.fisher_p_value)  # for Python, too


@kept
def associations(keys, formula):
    """(n, 2) strength and effect of keys that are (a, m, n, n_true, variance) each.

    Both are 0 where there is nothing to compare.
    """
    out = np.zeros((len(keys), 2))
    for i in range(len(keys)):
        a, m, n, n_true, variance = keys[i, 0], keys[i, 1], keys[i, 2], keys[i, 3], keys[i, 4]
        if variance > 0.0:
            margins = Margins(n, n_true, n - n_true, variance)
            out[i, 0], out[i, 1], _, _ = association(a, m, margins, formula, False)
    return out
