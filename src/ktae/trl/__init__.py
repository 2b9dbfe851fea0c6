"""Everything that knows TRL. Importing `KTAETrainer` imports TRL; importing `ktae.trl` does not."""

from typing import Any

__all__ = ["KTAETrainer"]


def __getattr__(name: str) -> Any:
    if name == "KTAETrainer":
        from ktae.trl.trainer import KTAETrainer

        return KTAETrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
