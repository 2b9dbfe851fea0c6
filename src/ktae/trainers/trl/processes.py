"""Numbers over all processes of a training."""

from __future__ import annotations

import time

import torch
from accelerate.utils import gather


def of_all(values: torch.Tensor) -> torch.Tensor:
    """(processes, ...): accelerate gathers along the first dimension, which a scalar lacks."""
    gathered: torch.Tensor = gather(values.unsqueeze(0))
    return gathered


def total(values: torch.Tensor) -> torch.Tensor:
    """The sum over processes, elementwise."""
    return of_all(values).sum(dim=0)


def largest(values: torch.Tensor) -> torch.Tensor:
    """The largest over processes, elementwise."""
    return of_all(values).amax(dim=0)


def now(device: torch.device) -> float:
    """Seconds on a clock, with a GPU's work so far done. TRL waits for it at this point, too."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
