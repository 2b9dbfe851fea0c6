"""Whether this installation works: what is installed, and what to do where it fails."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from ktae.arrays import on_host
from ktae.batch import make_batch
from ktae.counting import naive
from ktae.errors import one_line
from ktae.estimators import KTAE

TOLERANCE = 1e-6
"""Largest difference of credit, and relative one of gradients, which are float32."""

EXTRAS = {
    "trl": ("trl", "transformers", "torch", "accelerate"),
    "verl": ("verl", "ray"),
    "eval": ("math-verify", "datasets"),
    "report": ("jinja2", "math-verify", "tokenizers"),
}
"""Packages of each extra that say whether it is installed."""

BUG = "please report this, with the output of ktae doctor"


class Finding(NamedTuple):
    """One line of the diagnosis."""

    subject: str
    status: Literal["ok", "wrong", "absent"]
    """`wrong`: it is installed and does not do what it should."""
    detail: str
    remedy: str = ""


def tried(subject: str, error_and_detail: Callable[[], tuple[float, str]], remedy: str) -> Finding:
    """The finding of a difference from the reference, or of an exception."""
    try:
        error, detail = error_and_detail()
    except Exception as failure:
        reason = f"{type(failure).__name__}: {one_line(failure, 200)}"
        return Finding(subject, "wrong", reason, remedy)
    if error <= TOLERANCE:  # false for NaN
        return Finding(subject, "ok", detail)
    return Finding(subject, "wrong", detail, BUG)


def diagnose() -> Iterator[Finding]:
    """Look at backends and engines, one finding at a time; the slow ones come last."""
    yield tried("backend cpu", lambda: compared("cpu"), BUG)
    if importlib.util.find_spec("torch") is None:
        yield Finding("backend torch", "absent", "not installed", "pip install -U torch")
    else:
        yield tried("backend torch", lambda: compared("torch"), BUG)
    for extra, packages in EXTRAS.items():
        versions, missing = [], []
        for package in packages:
            try:
                versions.append(f"{package} {importlib.metadata.version(package)}")
            except importlib.metadata.PackageNotFoundError:
                missing.append(package)
        if missing:
            detail = f"{', '.join(missing)} not installed"
            yield Finding(f"extra {extra}", "absent", detail, f"pip install 'ktae[{extra}]'")
        else:
            yield Finding(f"extra {extra}", "ok", ", ".join(versions))
    if importlib.util.find_spec("trl") is not None:
        yield from trl_findings()


def example() -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The arrays of a batch of awkward shape, and the reference's credit of them."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 40, (24, 31))
    mask = np.arange(31) < rng.integers(0, 32, (24, 1))
    arrays = (ids, mask, rng.integers(0, 2, 24), np.repeat([7, 3, 5], 8))
    return arrays, KTAE().by_units().credit(make_batch(*arrays), naive.credit)


def compared(backend: str) -> tuple[float, str]:
    """The error of a backend against the reference; that of tensors on the GPU, if there is one."""
    arrays, expected = example()
    started = time.perf_counter()
    batch = make_batch(*arrays)
    if backend == "torch":
        import torch

        from ktae.device_batch import batch_on_device

        device = "cuda" if torch.cuda.is_available() else "cpu"
        batch = batch_on_device(torch.from_numpy(arrays[0]).to(device), *arrays[1:])
    credit = on_host(KTAE().credit(batch))
    seconds = time.perf_counter() - started
    error = float(np.abs(credit - expected).max())
    return error, f"largest difference to the reference {error:.1e}; first call {seconds:.1f} s"


def trl_findings() -> Iterator[Finding]:
    """A real training step of each loss type: does each token's credit arrive at that token?"""

    def compared(loss_type: str) -> tuple[float, str]:
        from ktae.trainers.trl import gradient_check

        error = gradient_check.gradient_error(loss_type)
        return error, f"gradient of token advantages, relative error {error:.1e}"

    for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"):
        compare = functools.partial(compared, loss_type)
        yield tried(f"TRL, loss {loss_type}", compare, "pip install -U 'ktae[trl]'")


def diagnose_verl() -> Iterator[Finding]:
    """verl's own advantage function on what is there."""

    def compared() -> tuple[float, str]:
        from ktae.trainers.verl import smoke

        arrays, expected = example()
        error = float(np.abs(smoke.added_credit(*arrays) - expected).max())
        what = f"advantages of verl {importlib.metadata.version('verl')}"
        return error, f"{what}, largest difference to the reference {error:.1e}"

    yield tried("verl", compared, "pip install 'ktae[verl]'")
