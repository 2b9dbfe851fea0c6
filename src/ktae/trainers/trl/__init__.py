"""Everything that knows TRL. Importing a trainer imports TRL; importing this package does not."""

import importlib
from typing import Any

__all__ = ["DynamicSampling", "KTAETrainer", "Patience"]

_MODULES = {
    "DynamicSampling": "dynamic_sampling",
    "KTAETrainer": "trainer",
    "Patience": "callbacks",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
