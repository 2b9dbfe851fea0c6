"""Numbers over all processes of a training."""

from __future__ import annotations

import time

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather

from ktae.arrays import on_host


def of_all(values: np.ndarray) -> np.ndarray:
    """(processes, n) of each process's (n,) numbers."""
    gathered = gather(torch.tensor(values[None], device=PartialState().device))
    return np.asarray(on_host(gathered))


def total(values: np.ndarray) -> np.ndarray:
    """The sum over processes, elementwise."""
    summed: np.ndarray = of_all(values).sum(axis=0)
    return summed


def largest(values: np.ndarray) -> np.ndarray:
    """The largest over processes, elementwise."""
    most: np.ndarray = of_all(values).max(axis=0)
    return most


def now(device: torch.device) -> float:
    """Seconds on a clock, with a GPU's work so far done. TRL waits for it at this point, too."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
