"""How large a base model is, and how one of that size is pretrained. Importing costs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from ktae.errors import InputError


@dataclass(frozen=True)
class Size:
    """The shape of a base model and the settings that it is pretrained with."""

    name: str
    """As recipes and commands call it."""
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

MEDIUM = Size(
    "medium",
    hidden_size=512,
    layers=8,
    heads=8,
    intermediate_size=1408,
    initializer_range=0.02,
    batch=128,
    learning_rate=5e-4,
    for_gpu=True,
)
"""About 26 million parameters, for a GPU."""

SIZES: dict[str, Size] = {size.name: size for size in (TINY, MEDIUM)}
"""The sizes, the default first."""


def size_named(name: str) -> Size:
    """The size of that name.

    Raises:
        InputError: there is none.
    """
    if name not in SIZES:
        raise InputError(f"no demo model size {name!r}; expected one of {', '.join(SIZES)}")
    return SIZES[name]
