"""Where numbers come from: the code's commit and the machine."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import ktae
from ktae import bench
from ktae.backends import installed_version

TRAINS_WITH = ("trl", "transformers")


PACKAGES = (Path(ktae.__file__).resolve().parent, Path(__file__).resolve().parents[1])
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
    """Processor, cores, GPU, versions and date; the versions of what trains among them."""
    facts = bench.machine()
    found = [name for name in TRAINS_WITH if importlib.util.find_spec(name) is not None]
    versions = [facts["versions"], *(f"{name}={installed_version(name)}" for name in found)]
    return facts | {"versions": " ".join(versions)}
