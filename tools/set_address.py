"""Write the repository's public address wherever it belongs, once there is one.

    python tools/set_address.py https://github.com/OWNER/ktae

`[project.urls]` in `pyproject.toml` gets it. On the package page the README's links and its picture
become absolute, of the released version's tag. The commands that clone get the address, too. What
is left to a person is printed: the sentences that say there is no address yet. This file and its
test have then done their work, and go.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLONED_IN = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PLACE = "git clone ADDRESS"
SAYS_NONE = re.compile(r"no public address|after the first release|does not have yet")

URLS = """Repository = "{address}"
Documentation = "{address}/blob/main/docs/index.md"
Changelog = "{address}/blob/main/CHANGELOG.md"
Issues = "{address}/issues"
"""
SECTION = "[project.urls]\n"
LINKS = re.compile(r"  # Without an address:\n(?:  \{ pattern.*\n)+")
ABSOLUTE_LINKS = r"""  {{ pattern = '!\[([^\]]*)\]\((?!https?://)([^)]*)\)', replacement = '![\1]({address}/raw/v$HFPR_VERSION/\2)' }},
  {{ pattern = '\[([^\]]*)\]\((?!https?://|#)([^)]*)\)', replacement = '[\1]({address}/blob/v$HFPR_VERSION/\2)' }},
  {{ pattern = '\[([^\]]*)\]\(#[^)]*\)', replacement = '\1' }},
"""  # noqa: E501


def set_address(address: str, root: Path) -> list[str]:
    """Write it into the files of the checkout; returns the lines that a person must rewrite.

    Raises:
        ValueError: it is no address, or a file does not have the place for it, such as when there
            is an address already. No file has changed then.
    """
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", address):
        raise ValueError(
            f"{address!r} is no address; expected one as https://github.com/OWNER/ktae"
        )
    project = root / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    if text.count(SECTION) != 1 or len(LINKS.findall(text)) != 1 or "Repository =" in text:
        raise ValueError(f"{project} has an address already, or no place for one")
    changed = {}
    for path in map(root.joinpath, CLONED_IN):
        before = path.read_text(encoding="utf-8")
        if PLACE not in before:
            raise ValueError(f"{path} has no {PLACE!r}")
        changed[path] = before.replace(PLACE, f"git clone {address}")
    text = text.replace(SECTION, SECTION + URLS.format(address=address))
    changed[project] = LINKS.sub(lambda _: ABSOLUTE_LINKS.format(address=address), text)
    for path, content in changed.items():
        path.write_text(content, encoding="utf-8")
    return [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path, content in changed.items()
        for number, line in enumerate(content.splitlines(), 1)
        if SAYS_NONE.search(line)
    ]


def main() -> int:
    """The command."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        left = set_address(sys.argv[1], ROOT)
    except (ValueError, OSError) as error:
        print(f"set_address: {error}", file=sys.stderr)
        return 2
    print("written. These lines say that there is none, and are yours to change:", *left, sep="\n")
    print("Then remove this file and its test.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
