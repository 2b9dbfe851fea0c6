"""Where numbers come from: the code's commit and the machine."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from ktae import bench
from ktae.backends import installed_version

TRAINS_WITH = ("trl", "transformers")


def commit() -> str | None:
    """The git commit of the code that is running, `-dirty` if files differ; None: no checkout."""
    here = Path(__file__).resolve().parent
    try:
        # `--dirty` sees tracked files only, and `--match=` that fits nothing leaves out tags.
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--match=", "--exclude=*"],
            cwd=here, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        tracked = subprocess.run(
            ["git", "ls-files", "--error-unmatch", Path(__file__).name],
            cwd=here, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    is_checkout = done.returncode == 0 and tracked.returncode == 0
    return done.stdout.strip() if is_checkout else None


def machine() -> dict[str, str]:
    """Processor, cores, GPU, versions and date; the versions of what trains among them."""
    facts = bench.machine()
    found = [name for name in TRAINS_WITH if importlib.util.find_spec(name) is not None]
    versions = [facts["versions"], *(f"{name}={installed_version(name)}" for name in found)]
    return facts | {"versions": " ".join(versions)}
