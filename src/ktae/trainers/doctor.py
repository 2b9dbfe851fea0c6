"""Whether this installation works: what is there, what is right, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from ktae.backends import naive
from ktae.batch import make_batch
from ktae.errors import one_line
from ktae.estimators import KTAE

TOLERANCE = 1e-6
"""Of credit and, relatively, of gradients; both are computed in float32."""

ONEDNN_ISA = "ONEDNN_MAX_CPU_ISA"
"""Which instructions torch's CPU library may use."""

EXTRAS = {
    "trl": ("trl", "transformers", "torch", "accelerate"),
    "verl": ("verl", "ray"),
    "eval": ("math-verify",),
    "report": ("jinja2",),
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

    @classmethod
    def of_error(cls, subject: str, error: float, detail: str) -> Finding:
        """What a difference from the reference says."""
        if error <= TOLERANCE:  # false for NaN
            return cls(subject, "ok", detail)
        return cls(subject, "wrong", detail, BUG)

    @classmethod
    def of_failure(cls, subject: str, failure: Exception, remedy: str) -> Finding:
        """What an exception says."""
        return cls(subject, "wrong", f"{type(failure).__name__}: {one_line(failure, 200)}", remedy)


def diagnose() -> Iterator[Finding]:
    """Look at backends and engines, one finding at a time; the slow ones come last."""
    limit = os.environ.get(ONEDNN_ISA) or "not set"
    advice = f"some machines advertise AMX and kill the process: there, export {ONEDNN_ISA}="
    yield Finding("bf16 on the CPU", "ok", f"{ONEDNN_ISA} is {limit}; {advice}AVX512_CORE_BF16")
    yield from backend_findings()
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


def diagnose_verl() -> Iterator[Finding]:
    """verl's smallest job on what is there, and what is missing for GPUs."""
    try:
        from ktae.trainers.verl import smoke

        error = smoke.advantage_error()
    except Exception as failure:  # a half-installed torch raises more than ImportError
        yield Finding.of_failure("verl", failure, "pip install 'ktae[verl]'")
        return
    version = importlib.metadata.version("verl")
    detail = f"advantages of verl {version}, largest difference to the reference {error:.1e}"
    yield Finding.of_error("verl", error, detail)
    for subject, detail, remedy in smoke.missing_for_gpus():
        yield Finding(f"verl on GPUs, {subject}", "absent", detail, remedy)
    subject, started = "verl, a training step", time.perf_counter()
    try:
        step = smoke.training_step()
    except Exception as failure:  # Ray, a port, memory: it is the finding
        yield Finding.of_failure(subject, failure, BUG)
        return
    if step is None:
        remedy = "run ktae doctor from a checkout, installed with pip install -e"
        yield Finding(subject, "absent", "not tried: its stand-ins for GPUs are the tests'", remedy)
        return
    detail = (
        f"the demo on Ray and the CPU, {time.perf_counter() - started:.0f} s; "
        f"mean |credit| {step['credit/mean_abs']:.3f}"
    )
    yield Finding(subject, "ok", detail)


def backend_findings() -> Iterator[Finding]:
    """Each backend against the reference, on a batch of awkward shape."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 40, (24, 31))
    mask = np.arange(31) < rng.integers(0, 32, (24, 1))
    arrays = (ids, mask, rng.integers(0, 2, 24), np.repeat([7, 3, 5], 8))
    expected = naive.credit(make_batch(*arrays), KTAE().formula())
    for name in ("cpu", "torch"):
        if name == "torch" and importlib.util.find_spec("torch") is None:
            yield Finding("backend torch", "absent", "not installed", "pip install -U torch")
            continue
        started = time.perf_counter()
        try:
            error = float(np.abs(credit_by(name, *arrays) - expected).max())
        except Exception as failure:  # a compiler, a driver, a version: it is the finding
            yield Finding.of_failure(f"backend {name}", failure, BUG)
            continue
        seconds = time.perf_counter() - started
        detail = f"largest difference to the reference {error:.1e}; first call {seconds:.1f} s"
        yield Finding.of_error(f"backend {name}", error, detail)


def credit_by(
    name: str, token_ids: np.ndarray, mask: np.ndarray, correct: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Of a backend; that of tensors computes on the GPU, if there is one."""
    formula = KTAE().formula()
    if name == "cpu":
        from ktae.backends import cpu

        return np.asarray(cpu.credit(make_batch(token_ids, mask, correct, groups), formula))
    import torch

    from ktae.backends import torch as of_tensors

    device = "cuda" if torch.cuda.is_available() else "cpu"
    ids = torch.from_numpy(token_ids).to(device)
    batch = of_tensors.batch_on_device(ids, mask, correct, groups, score_range=None)
    return np.asarray(of_tensors.credit(batch, formula).cpu())


def trl_findings() -> Iterator[Finding]:
    """A real training step of each loss type: does each token's credit arrive at that token?"""
    try:
        from ktae.trainers.trl import gradient_check
    except Exception as failure:  # a half-installed torch raises more than ImportError
        yield Finding.of_failure("importing TRL", failure, "pip install -U 'ktae[trl]'")
        return
    for loss_type in gradient_check.WEIGHTS:
        subject = f"TRL, loss {loss_type}"
        try:
            error = gradient_check.gradient_error(loss_type)
        except Exception as failure:  # whatever a foreign version does: it is the finding
            remedy = "pip install 'trl>=1.16,<2' 'transformers>=5'"
            yield Finding.of_failure(subject, failure, remedy)
            continue
        detail = f"gradient of token advantages, relative error {error:.1e}"
        yield Finding.of_error(subject, error, detail)
