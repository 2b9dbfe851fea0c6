"""Token credit for group-based RL of language models: which token gets how much, and why."""

import ktae.safe_path  # noqa: F401 - first: it says from where the others are imported
from ktae._version import __version__
from ktae.backends.table import CreditTable
from ktae.credit import credit_table, token_advantages, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, preset
from ktae.outcomes import class_credit

# Last: importing anything below `ktae.backends` for the first time binds the module to that name.
from ktae.backends import available as backends  # isort: skip

__all__ = [
    "CreditTable",
    "Estimator",
    "InputError",
    "__version__",
    "backends",
    "class_credit",
    "credit_table",
    "preset",
    "token_advantages",
    "token_credit",
]
