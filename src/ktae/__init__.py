"""Which tokens made the rollouts right: token-level advantages for GRPO and DAPO."""

from ktae._version import __version__
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.estimator import key_token_table, key_token_values, token_advantages
from ktae.table import KeyTokenTable

__all__ = [
    "InputError",
    "KTAEConfig",
    "KeyTokenTable",
    "__version__",
    "key_token_table",
    "key_token_values",
    "token_advantages",
]
