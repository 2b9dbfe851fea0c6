"""Build the documentation into `site/`, and fail on whatever a reader would stumble over.

    python tools/build_site.py [--check]     --check: look at the menu and the files, build nothing

zensical checks links between pages, and their anchors. Three things it does not check, so they are
checked here: a page that the menu lacks, or one that it names and that is not there; a link to a
file that is no page, such as a picture; and a docstring that does not fit its function. Nor does
it follow links of the file system, by which the laboratory's pages and results are part of the
documentation. So the site is built from a copy, in `build/docs`. The pages' own links lead to the
files of a checkout, such as `../lab/pages/index.md`; in the copy they lead to the site's.
"""

from __future__ import annotations

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
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s#]+)(?:#[^)]*)?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
CODE_OR_LINK = re.compile(f"{CODE.pattern}|{LINK.pattern}", CODE.flags)


def main() -> int:
    docs = ROOT / "docs"
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    wrong = [*menu_differences(docs, menu), *missing_files(docs)]
    if not wrong and "--check" not in sys.argv:
        wrong = build(docs, ROOT / "build" / "docs")
    for line in wrong:
        print(f"build_site: {line}", file=sys.stderr)
    return int(bool(wrong))


def pages(docs: Path) -> set[str]:
    """The pages below a folder, by their paths from there; links of the file system count."""
    return {
        (Path(folder) / name).relative_to(docs).as_posix()
        for folder, _, names in os.walk(docs, followlinks=True)
        for name in names
        if name.endswith(".md")
    }


def menu_differences(docs: Path, menu: Any) -> list[str]:
    """One line for each page that is missing in the menu, or there alone."""
    named, there = set(leaves(menu)), pages(docs)
    return [f"{name}: not in the menu of mkdocs.yml" for name in sorted(there - named)] + [
        f"{name}: in the menu of mkdocs.yml, and no page" for name in sorted(named - there)
    ]


def leaves(menu: Any) -> Iterator[str]:
    """The pages of a menu: a list of pages and of mappings from a title to a page or a menu."""
    if isinstance(menu, str):
        yield menu
        return
    for entry in menu.values() if isinstance(menu, dict) else menu:
        yield from leaves(entry)


def missing_files(docs: Path) -> list[str]:
    """One line for each relative link of a page that leads to no file, or by a link of the file
    system: a code host does not follow those."""
    wrong = []
    for name in sorted(pages(docs)):
        page = (docs / name).resolve()
        for target in relative_links(page.read_text(encoding="utf-8")):
            path = os.path.normpath(page.parent / target)
            if not os.path.exists(path):
                wrong.append(f"{name}: a link to {target}, which is not there")
            elif os.path.realpath(path) != path:
                wrong.append(f"{name}: a link to {target}, which goes by a link of the file system")
    return wrong


def relative_links(text: str) -> list[str]:
    """What the links of a page lead to, without the anchors and without what is code."""
    return [target for target in LINK.findall(CODE.sub("", text)) if ":" not in target]


def copy_of(docs: Path, copy: Path) -> None:
    """Copy the documentation, with what its links of the file system lead to, and turn the links
    of its pages to where the copy has their files."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(docs, copy, ignore=shutil.ignore_patterns("*.py", "*.csv.gz", "*.json"))
    linked = {folder.resolve(): folder.name for folder in docs.iterdir() if folder.is_symlink()}
    places = linked | {docs.resolve(): "."}
    for name in pages(docs):
        page = (docs / name).resolve()

        def turned(found: re.Match[str], page: Path = page, name: str = name) -> str:
            target = found[1]
            if target is None or ":" in target:
                return found[0]
            path = Path(os.path.normpath(page.parent / target))
            for source, place in places.items():
                if path.is_relative_to(source):
                    there = os.path.join(place, path.relative_to(source))
                    new = os.path.relpath(there, os.path.dirname(name) or ".")
                    return found[0].replace(f"({target}", f"({new}", 1)
            return found[0]

        text = page.read_text(encoding="utf-8")
        (copy / name).write_text(CODE_OR_LINK.sub(turned, text), encoding="utf-8")


def build(docs: Path, copy: Path) -> list[str]:
    """The site, from a copy of the documentation; what was wrong, a line each."""
    copy_of(docs, copy)
    wrong = missing_files(copy)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(done.stdout)
    wrong += [line for line in done.stdout.splitlines() if line.startswith("griffe: ")]
    if done.returncode:
        wrong.append(f"zensical ended with status {done.returncode}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
