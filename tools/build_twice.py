"""Build the sdist and the wheel twice, under different circumstances, and compare the bytes.

    python tools/build_twice.py OUT

The two trees lie in different folders, their files were written in another order, at other times,
under another umask and in another time zone. The wheel is built from the tree, and once more from
the unpacked sdist. Nothing may depend on any of that. Then both are held to the list of files that
git knows: the sdist has all of them but those in `NOT_IN_SDIST`, the wheel has the package, and
neither has anything else. OUT gets the sdist and the wheel.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

NOT_IN_SDIST = (
    ".ci/", ".github/", ".pre-commit-config.yaml", "Makefile", "mkdocs.yml", "tests/docs/", "lab/",
)  # fmt: skip
"""What only a checkout needs, as what installs the laboratory or builds the site with its pages;
and the laboratory, which is a distribution of its own."""
GENERATED = {"PKG-INFO"}
PACKAGE = "src/"


class Circumstances(NamedTuple):
    """What a build must not depend on."""

    folder: str
    umask: int
    time_zone: str
    modified: int
    """Seconds since 1970, for every file."""
    reverse: bool
    """Write the files in the opposite order."""


FIRST = Circumstances("here", 0o022, "UTC", 1_700_000_000, reverse=False)
SECOND = Circumstances("and/quite/elsewhere", 0o077, "Asia/Tokyo", 1_800_000_000, reverse=True)


class Difference(Exception):
    """Two builds differ, or an archive does not hold what it should."""


def main(out: Path) -> None:
    tree = {name: (ROOT / name).read_bytes() for name in tracked_files()}
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (build(Path(scratch), tree, how) for how in (FIRST, SECOND))
        for name in first:
            same_bytes(first[name], second[name])
        sdist, wheel = first["sdist"], first["wheel"]
        same_bytes(wheel, wheel_of_sdist(sdist, Path(scratch) / "unpacked"))
        check_sdist(sdist, list(tree))
        check_wheel(wheel, list(tree))
        out.mkdir(parents=True, exist_ok=True)
        for file in (sdist, wheel):
            shutil.copy(file, out)
            size, digest = file.stat().st_size, sha256(file)
            print(f"{file.name}: {size:,} bytes, the same twice, sha256 {digest[:16]}")


def tracked_files() -> list[str]:
    """Those that git knows and that are there."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        raise Difference(f"expected a git checkout: {listed.stderr.strip()}")
    return sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def build(scratch: Path, content: dict[str, bytes], how: Circumstances) -> dict[str, Path]:
    """The sdist and the wheel of a copy of the tree."""
    tree, dist = scratch / how.folder / "tree", scratch / how.folder / "dist"
    before = os.umask(how.umask)
    try:
        for name in sorted(content, reverse=how.reverse):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content[name])
            os.utime(tree / name, (how.modified, how.modified))
        run_build(tree, dist, {"TZ": how.time_zone}, "--sdist", "--wheel")
    finally:
        os.umask(before)
    return {"sdist": only(dist, "*.tar.gz"), "wheel": only(dist, "*.whl")}


def wheel_of_sdist(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run_build(only(folder, "*"), folder / "dist", {}, "--wheel")
    return only(folder / "dist", "*.whl")


def run_build(tree: Path, dist: Path, environment: dict[str, str], *what: str) -> None:
    """Without isolation: the backend is the one that constraints.txt pins."""
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", str(dist)]
    kept = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [*command, str(tree)], cwd=tree, env=kept | environment, capture_output=True, text=True
    )
    if done.returncode:
        raise Difference(f"the build in {tree} failed:\n{done.stdout}{done.stderr}")


def only(folder: Path, pattern: str) -> Path:
    found = [path for path in folder.glob(pattern) if path.name != "dist"]
    if len(found) != 1:
        raise Difference(f"{folder} holds {len(found)} of {pattern}; expected one")
    return found[0]


def same_bytes(a: Path, b: Path) -> None:
    if a.read_bytes() == b.read_bytes():
        return
    members_a, members_b = (dict(members(path)) for path in (a, b))
    names = sorted(n for n in {*members_a, *members_b} if members_a.get(n) != members_b.get(n))
    where = ", ".join(names[:5]) or "the order of the members, or what is said about them"
    raise Difference(f"{a.name} built twice differs in {where}")


def members(path: Path) -> Iterable[tuple[str, str]]:
    """Name and digest of each file of an archive."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, hashlib.sha256(archive.read(name)).hexdigest()
        return
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            yield member.name, hashlib.sha256(content.read() if content else b"").hexdigest()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_sdist(sdist: Path, tracked: list[str]) -> None:
    """Every file that git knows, and none that it does not."""
    prefix = sdist.name.removesuffix(".tar.gz") + "/"
    found = {name.removeprefix(prefix) for name, _ in members(sdist)}
    same_names(sdist, found - GENERATED, {n for n in tracked if not n.startswith(NOT_IN_SDIST)})


def check_wheel(wheel: Path, tracked: list[str]) -> None:
    """The package and nothing else, beside what describes it."""
    found = {name for name, _ in members(wheel) if ".dist-info/" not in name}
    package = {name.removeprefix(PACKAGE) for name in tracked if name.startswith(PACKAGE)}
    same_names(wheel, found, package)


def same_names(archive: Path, found: set[str], expected: set[str]) -> None:
    for what, names in (("lacks", expected - found), ("holds", found - expected)):
        if names:
            first = ", ".join(sorted(names)[:5])
            raise Difference(
                f"{archive.name} {what} {len(names)} files: {first}; see [tool.hatch.build] in "
                "pyproject.toml and NOT_IN_SDIST"
            )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]))
    except Difference as difference:
        sys.exit(f"build_twice: {difference}")
