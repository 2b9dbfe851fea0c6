"""Numbers over all processes of a training."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather

from ktae.arrays import on_host


def of_all(values: np.ndarray) -> np.ndarray:
    """(processes, n) of each process's (n,) numbers."""
    return np.asarray(on_host(gather(torch.tensor(values[None], device=PartialState().device))))


def total(values: np.ndarray) -> Any:
    """The sum over processes, elementwise."""
    return np.sum(of_all(values), axis=0)


def largest(values: np.ndarray) -> Any:
    """The largest over processes, elementwise."""
    return np.max(of_all(values), axis=0)


def now(device: torch.device) -> float:
    """Seconds on a clock, with a GPU's work so far done. TRL waits for it at this point, too."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
