"""Build the documentation into `site/`, and fail on whatever a reader would stumble over.

    python tools/build_site.py [--check]     --check: look at the menu and the files, build nothing

zensical checks links between pages, and their anchors. Three things it does not check, so they are
checked here: a page that the menu lacks, or one that it names and that is not there; a link to a
file that is no page, such as a picture; and a docstring that does not fit its function.

The site is built from a copy in `build/docs`. There, links out of `docs/` are their words alone.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"!?\[(?P<words>[^\]]*)\]\((?P<target>[^)\s#]+)(#[^)]*)?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
CODE_OR_LINK = re.compile(f"{LINK.pattern}|{CODE.pattern}", CODE.flags)


def main() -> int:
    docs = ROOT / "docs"
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    wrong = [*menu_differences(docs, settings["nav"]), *missing_files(docs)]
    if not wrong and "--check" not in sys.argv:
        copy_of(docs, ROOT / "build" / "docs")
        wrong = build()
    for line in wrong:
        print(f"build_site: {line}", file=sys.stderr)
    return int(bool(wrong))


def pages(docs: Path) -> set[str]:
    """The pages below a folder, by their paths from there."""
    return {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}


def menu_differences(docs: Path, menu: Any) -> list[str]:
    """One line for each page that is missing in the menu, or there alone."""
    named, there = set(leaves(menu)), pages(docs)
    problem = dict.fromkeys(there - named, "not in the menu of mkdocs.yml")
    problem |= dict.fromkeys(named - there, "in the menu of mkdocs.yml, and no page")
    return [f"{name}: {problem[name]}" for name in sorted(problem)]


def leaves(menu: Any) -> Iterator[str]:
    """The pages of a menu: a list of pages and of mappings from a title to a page or a menu."""
    if isinstance(menu, str):
        yield menu
        return
    for entry in menu.values() if isinstance(menu, dict) else menu:
        yield from leaves(entry)


def missing_files(docs: Path) -> list[str]:
    """One line for each relative link of the pages below a folder that leads to no file."""
    wrong = []
    for name in sorted(pages(docs)):
        page = docs / name
        for link in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
            path = Path(os.path.normpath(page.parent / link["target"]))
            if ":" not in link["target"] and not path.exists():
                wrong.append(f"{name}: a link to {link['target']}, which is not there")
    return wrong


def copy_of(docs: Path, copy: Path) -> None:
    """Copy the documentation, and turn the links that lead out of it."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(docs, copy, ignore=shutil.ignore_patterns("*.py"))
    for name in pages(docs):

        def turned(match: re.Match[str], page: Path = docs / name) -> str:
            target = match["target"]
            if target is None or ":" in target:
                return match[0]
            path = Path(os.path.normpath(page.parent / target))
            return match[0] if path.is_relative_to(docs) else match["words"]

        text = (docs / name).read_text(encoding="utf-8")
        (copy / name).write_text(CODE_OR_LINK.sub(turned, text), encoding="utf-8")


def build() -> list[str]:
    """The site, from the copy; what was wrong, a line each."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(done.stdout)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("griffe: ")]
    if done.returncode:
        wrong.append(f"zensical ended with status {done.returncode}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
