"""Where numbers come from: the code's commit and the machine."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from ktae import bench
from ktae.backends import installed_version

TRAINS_WITH = ("trl", "transformers")


def commit() -> str | None:
    """The git commit of the code that is running; None: no checkout.

    With `-dirty` if a file of the package differs from it. Other files may: matrix and recipes are
    in what the commit is written into, and results that are written anew are a change themselves.
    """
    package = Path(__file__).resolve().parent.parent

    def git(*arguments: str) -> str | None:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=package, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        is_tracked = git("ls-files", "--error-unmatch", "__init__.py") is not None
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.TimeoutExpired):
        return None
    if head is None or not is_tracked:
        return None
    return head + ("-dirty" if changed else "")


def machine() -> dict[str, str]:
    """Processor, cores, GPU, versions and date; the versions of what trains among them."""
    facts = bench.machine()
    found = [name for name in TRAINS_WITH if importlib.util.find_spec(name) is not None]
    versions = [facts["versions"], *(f"{name}={installed_version(name)}" for name in found)]
    return facts | {"versions": " ".join(versions)}
