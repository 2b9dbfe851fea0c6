"""Everything that knows TRL. Importing a trainer imports TRL; importing this package does not."""

import importlib
import importlib.util
from typing import Any

from ktae.trainers import check_version

__all__ = ["DynamicSampling", "KTAEConfig", "KTAETrainer", "Patience"]

_MODULES = {
    "DynamicSampling": "dynamic_sampling",
    "KTAEConfig": "config",
    "KTAETrainer": "trainer",
    "Patience": "callbacks",
}


if importlib.util.find_spec("trl") is not None:  # without it the import of a trainer says so
    check_version("trl")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
