"""Everything that knows TRL. Importing a trainer imports TRL; importing this package does not."""

from typing import Any

__all__ = ["DynamicSampling", "KTAETrainer", "Patience"]


def __getattr__(name: str) -> Any:
    if name == "KTAETrainer":
        from ktae.trainers.trl.trainer import KTAETrainer

        return KTAETrainer
    if name == "DynamicSampling":
        from ktae.trainers.trl.dynamic_sampling import DynamicSampling

        return DynamicSampling
    if name == "Patience":
        from ktae.trainers.trl.callbacks import Patience

        return Patience
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
