"""What the installed packages say of themselves: do they fit together, and under which licences?

    python tools/audit.py [PACKAGE]

Takes PACKAGE (default: ktae, with all its extras that are installed) and what it needs, from the
metadata of the environment that this runs in; no network. Exit status 1: requirements that are not
met, or a licence that is none of `FINE`.
"""

from __future__ import annotations

import importlib.metadata as metadata
import re
import subprocess
import sys

from packaging.requirements import Requirement

FINE = re.compile(
    r"\b(MIT|BSD|Apache|Apache-2\.0|ISC|PSF|Python Software Foundation|MPL-2\.0|Mozilla|HPND|Zlib"
    r"|0BSD|CNRI|Unlicense|CC0|public domain)\b",
    re.IGNORECASE,
)
"""Permissive, or (MPL) reciprocal for their own files alone: none asks anything of users."""


def main(root: str) -> int:
    bad = 0
    check = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    print(check.stdout.strip())
    bad += check.returncode != 0
    for name in sorted(closure(root)):
        found = metadata.metadata(name)
        licence = declared(found) or in_its_file(name)
        fine = FINE.search(licence) is not None
        bad += not fine
        print(f"{'  ' if fine else '? '}{name}=={found['Version']}: {licence or 'says nothing'}")
    return int(bad > 0)


def closure(root: str) -> set[str]:
    """Every installed package that `root` needs, directly or not, with all extras of its own."""
    extras = metadata.metadata(root).get_all("Provides-Extra") or []
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    left = [(canonical(root), extra) for extra in ["", *extras]]
    while left:
        name, extra = left.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of an extra that is not installed
        found.add(name)
        for needed in map(Requirement, lines):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                left += [(canonical(needed.name), asked) for asked in ["", *needed.extras]]
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(found: metadata.PackageMetadata) -> str:
    """The licence expression, or the classifiers, or the first line of the licence field."""
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in found.get_all("Classifier") or []
        if text.startswith("License :: ")
    ]
    expression, field = (found.get_all(name) for name in ("License-Expression", "License"))
    text: str = (expression or [", ".join(classifiers)])[0] or (field or [""])[0]
    return text.strip().partition("\n")[0][:80]


def in_its_file(name: str) -> str:
    """The first line of the licence's text, for packages whose metadata only point to it."""
    for file in metadata.files(name) or []:
        if ".dist-info" in str(file) and file.name.upper().startswith(("LICENSE", "LICENCE")):
            lines = file.read_text(encoding="utf-8").strip().splitlines()
            return next(filter(None, map(str.strip, lines)), "")[:80]
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "ktae"))
