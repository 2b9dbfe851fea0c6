"""Which tokens made the rollouts right: token-level advantages for GRPO and DAPO."""

from ktae._version import __version__
from ktae.classes import class_token_values
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.estimator import key_token_table, key_token_values, token_advantages
from ktae.table import KeyTokenTable

# Last: importing anything below `ktae.backends` for the first time binds the module to that name.
from ktae.backends import available as backends  # isort: skip

__all__ = [
    "InputError",
    "KTAEConfig",
    "KeyTokenTable",
    "__version__",
    "backends",
    "class_token_values",
    "key_token_table",
    "key_token_values",
    "token_advantages",
]
