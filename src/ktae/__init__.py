"""Token credit for group-based RL of language models: which token gets how much, and why."""

import ktae.safe_path  # noqa: F401 - first: it says from where the others are imported
from ktae._version import __version__
from ktae.backends.table import CreditTable
from ktae.credit import credit_table, token_advantages, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, preset
from ktae.outcomes import class_credit
from ktae.whole_groups import score

__all__ = [
    "CreditTable",
    "Estimator",
    "InputError",
    "__version__",
    "class_credit",
    "credit_table",
    "preset",
    "score",
    "token_advantages",
    "token_credit",
]
