"""Everything that knows TRL. Importing a trainer imports TRL; importing `ktae.trl` does not."""

from typing import Any

__all__ = ["DynamicSampling", "KTAETrainer"]


def __getattr__(name: str) -> Any:
    if name == "KTAETrainer":
        from ktae.trl.trainer import KTAETrainer

        return KTAETrainer
    if name == "DynamicSampling":
        from ktae.trl.dynamic_sampling import DynamicSampling

        return DynamicSampling
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
