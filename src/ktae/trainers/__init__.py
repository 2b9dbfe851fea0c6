"""Credit inside of training engines, and which versions of these are known."""

from __future__ import annotations

import importlib.metadata
import logging
import re

from ktae.errors import InputError

KNOWN = {"trl": ((1, 16), (2, 0)), "verl": ((0, 9), (0, 10))}
"""The oldest version that works, and the first one that nobody has tried."""


def check_version(engine: str, version: str | None = None) -> None:
    """Refuse a version of an engine that is too old or absent, and warn of one that is too new.

    `version` is the one that is being imported; None: the one that is installed.
    """
    oldest, untried = KNOWN[engine]
    known = f"{engine}>={'.'.join(map(str, oldest))},<{'.'.join(map(str, untried))}"
    advice = f"this version of ktae knows {known}: pip install 'ktae[{engine}]'"
    try:
        version = version or importlib.metadata.version(engine)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(f"{engine} is not installed; {advice}") from None
    parts = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(parts[1]), int(parts[2])) if parts else (0, 0)
    if numbers < oldest:
        raise InputError(f"{engine} {version} is installed; {advice}")
    if numbers >= untried:
        logging.getLogger(__name__).warning(
            f"{engine} {version} is newer than what was tried ({known}): see whether the metrics "
            "credit/... are there"
        )
