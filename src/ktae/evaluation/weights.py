"""Which weights a model folder holds."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ktae.errors import InputError

PATTERNS = ("*.safetensors", "*.bin", "*.pt")
"""Files of weights, in the order in which transformers and vLLM look: each only without those
before it."""


def weights_digest(folder: Path) -> str:
    """16 hexadecimal digits of a model's weights: those of a model trained again are others.

    Raises:
        InputError: the folder holds no weights, or they cannot be read.
    """
    files = next((found for p in PATTERNS if (found := sorted(folder.glob(p)))), None)
    if files is None:
        raise InputError(f"no weights ({' or '.join(PATTERNS)}) in {folder}")
    digest = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as content:
                hashlib.file_digest(content, lambda: digest)  # goes on with it
        except OSError as error:
            raise InputError(f"cannot read {file}: {error.strerror}") from None
    return digest.hexdigest()[:16]
