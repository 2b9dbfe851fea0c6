"""How large a base model is, and how one of that size is pretrained. Importing costs no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The shape of a base model and the settings that it is pretrained with."""

    name: str
    """As folders of base models are called by it."""
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    initializer_range: float
    """Standard deviation of the first weights."""
    batch: int
    """Worked solutions in a step of pretraining."""
    learning_rate: float
    """Of pretraining with AdamW, at its highest."""
    for_gpu: bool
    """Pretrained on the GPU where there is one; on the CPU with all of its threads."""


TINY = Size(
    "tiny",
    hidden_size=64,
    layers=2,
    heads=4,
    intermediate_size=160,
    initializer_range=0.07,  # transformers' 0.02 suits wider models; here it learns far slower
    batch=32,
    learning_rate=4e-3,
    for_gpu=False,
)
"""About 99,000 parameters, for a CPU: pretrained in about a minute."""
