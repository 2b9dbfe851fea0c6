"""Which versions of verl this package knows."""

from __future__ import annotations

import importlib.metadata
import re

from ktae.errors import InputError

OLDEST, TOO_NEW = (0, 9), (0, 10)
SUPPORTED = "verl>=0.9,<0.10"


def check(version: str) -> None:
    """Refuse a version of verl that is not supported.

    Raises:
        InputError: `version` is outside of `SUPPORTED`.
    """
    parts = re.match(r"(\d+)\.(\d+)", version)
    known = parts is not None and OLDEST <= (int(parts[1]), int(parts[2])) < TOO_NEW
    if not known:
        raise InputError(
            f"verl {version} is installed; this version of ktae supports {SUPPORTED}: "
            "pip install 'ktae[verl]'"
        )


def require() -> str:
    """The installed verl's version, without importing verl.

    Raises:
        InputError: verl is not installed, or is of a version that is not supported.
    """
    try:
        version = importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            f"verl is not installed; ktae supports {SUPPORTED}: pip install 'ktae[verl]'"
        ) from None
    check(version)
    return version
