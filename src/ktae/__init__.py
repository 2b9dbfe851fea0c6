"""Token credit for group-based RL of language models: which token gets how much, and why."""

import ktae.safe_path  # noqa: F401 - first: it says from where all others are imported

# isort: split
from typing import TYPE_CHECKING, Any

from ktae._version import __version__
from ktae.credit import credit_table, token_advantages, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, preset
from ktae.tables import CreditTable

if TYPE_CHECKING:
    from ktae.experiments.comparison import compare
    from ktae.report.notebook import read_rollouts, score, show_group
    from ktae.report.page import write_report
    from ktae.validity.held_out import held_out_pairs

__all__ = [
    "CreditTable",
    "Estimator",
    "InputError",
    "__version__",
    "compare",
    "credit_table",
    "held_out_pairs",
    "preset",
    "read_rollouts",
    "score",
    "show_group",
    "token_advantages",
    "token_credit",
    "write_report",
]

_LATER = {
    "compare": "ktae.experiments.comparison",
    "held_out_pairs": "ktae.validity.held_out",
    "read_rollouts": "ktae.report.notebook",
    "score": "ktae.report.notebook",
    "show_group": "ktae.report.notebook",
    "write_report": "ktae.report.page",
}
"""Imported when they are asked for: `import ktae` alone costs NumPy."""


def __dir__() -> list[str]:
    """The public names, and no other."""
    return __all__


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others

    def __getattr__(name: str) -> Any:
        """The names of `_LATER`."""
        if name not in _LATER:
            raise AttributeError(f"module 'ktae' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
