"""Build the documentation into `site/`, and fail on whatever a reader would stumble over.

    python tools/build_site.py [--check]     --check: look at the menu and the files, build nothing

zensical checks links between pages, and their anchors. Three things it does not check, so they are
checked here: a page that the menu lacks, or one that it names and that is not there; a link to a
file that is no page, such as a picture; and a docstring that does not fit its function. Nor does
it follow links of the file system, by which the laboratory's pages and results are part of the
documentation. So the site is built from a copy, in `build/docs`.
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
    """One line for each relative link of a page that leads to no file."""
    wrong = []
    for name in sorted(pages(docs)):
        text = CODE.sub("", (docs / name).read_text(encoding="utf-8"))
        for target in LINK.findall(text):
            # By the names alone: `..` in docs/evidence is docs, wherever that link leads.
            path = os.path.normpath((docs / name).parent / target)
            if "://" not in target and not os.path.exists(path):
                wrong.append(f"{name}: a link to {target}, which is not there")
    return wrong


def build(docs: Path, copy: Path) -> list[str]:
    """The site, from a copy of the documentation; what was wrong, a line each."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(docs, copy, ignore=shutil.ignore_patterns("*.py", "*.csv.gz", "*.json"))
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
