"""Everything that knows TRL. Importing a trainer imports TRL; importing this package does not.

It asks what bfloat16 does on this CPU, since TRL's own default is to train in it (`ktae.bf16`): so
import it before anything multiplies matrices.
"""

from typing import Any

from ktae import bf16

__all__ = ["DynamicSampling", "KTAETrainer", "Patience"]

bf16.prepare()


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
