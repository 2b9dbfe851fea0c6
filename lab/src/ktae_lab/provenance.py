"""Where numbers come from: the code's commit and the machine."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import ktae

VERSIONS_OF = ("numpy", "numba", "torch", "verl", "trl", "transformers")

PACKAGES = (Path(ktae.__file__).resolve().parent, Path(__file__).resolve().parent)
"""Of the library, which trains, and of the laboratory."""


def commit() -> str | None:
    """The git commit of the library that is running; None: no checkout.

    With `-dirty` if a tracked file of the library or of the laboratory differs from it. Others may:
    results that are written anew are a change themselves.
    """

    def git(*arguments: str) -> str | None:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=PACKAGES[0], capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        is_tracked = git("ls-files", "--error-unmatch", "__init__.py") is not None
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *map(str, PACKAGES))
    except (OSError, subprocess.TimeoutExpired):
        return None
    if head is None or not is_tracked:
        return None
    return head if changed == "" else f"{head}-dirty"  # as well if git could not tell


def machine() -> dict[str, str]:
    """Processor, cores, GPU, date, and the versions of what computes and trains."""
    versions = {"python": platform.python_version(), "ktae": ktae.__version__}
    versions |= {name: version(name) for name in VERSIONS_OF if find_spec(name) is not None}
    gpu = "none"
    if "torch" in versions:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else gpu
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "gpu": gpu,
        "versions": " ".join(f"{name}={number}" for name, number in versions.items()),
        "date": datetime.date.today().isoformat(),
    }
