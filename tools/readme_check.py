"""Run the README's code blocks, one by one, as a reader would: in a clean environment and clone.

    python tools/readme_check.py [--python python3.11] [--keep FOLDER] [--only N,...] [README]

The commands run in a fresh clone of this checkout (committed files only), with the wheel installed
into an environment of its own with the extras that the README names. A block that starts with
`make` is run without that environment, since make builds its own.

What cannot run as it stands (a model of the hub, hours, a cluster) says so in an HTML comment right
above its block, one directive a line:

    <!-- readme-check
    skip REASON                    the whole block
    skip-line START: REASON        the line that starts so
    before COMMAND                 a command to run first, such as one that writes the file
    prelude FILE: REASON           lines put in front of a Python block
    replace OLD => NEW: REASON     another text in place of one in the block
    -->

Every block and what was done with it is printed; any exit status but 0 ends the check with 1, and
so does a directive that fits nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "trl,verl,eval,report"
"""All that the README's commands need, in one environment."""
BLOCK = re.compile(
    r"(?:^<!-- readme-check\n(?P<directives>.*?)^-->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TIME_LIMIT = 1800
"""Seconds for one command."""


class Failure(Exception):
    """A command failed, or a directive fits nothing."""


@dataclasses.dataclass
class Block:
    """One code block, with what its comment says."""

    number: int
    line: int
    language: str
    code: str
    directives: list[tuple[str, str]]

    def all(self, kind: str) -> list[str]:
        return [text for name, text in self.directives if name == kind]


def blocks(text: str) -> list[Block]:
    """All code blocks of a Markdown text.

    Raises:
        Failure: a directive is unknown or gives no reason, or a comment stands above no block.
    """
    found = []
    for number, match in enumerate(BLOCK.finditer(text), start=1):
        directives = []
        for line in (match["directives"] or "").splitlines():
            kind, _, rest = line.strip().partition(" ")
            needs_reason = kind in ("skip-line", "prelude", "replace")
            if kind not in ("skip", "before", "skip-line", "prelude", "replace") or not rest:
                raise Failure(f"block {number}: no directive {line!r}")
            if needs_reason and not rest.rpartition(": ")[0]:
                raise Failure(f"block {number}: {line!r} gives no reason")
            directives.append((kind, rest))
        line = text[: match.start("code")].count("\n") + 1
        found.append(Block(number, line, match["language"], match["code"], directives))
    if text.count("<!-- readme-check") != sum(bool(block.directives) for block in found):
        raise Failure("a readme-check comment is not right above a code block")
    return found


def prepared(block: Block) -> str:
    """The block's code with its replacements."""
    code = block.code
    for text in block.all("replace"):
        change, _, reason = text.rpartition(": ")
        old, arrow, new = change.partition(" => ")
        if not arrow or old not in code:
            raise Failure(f"block {block.number}: nothing to replace for {text!r}")
        code = code.replace(old, new)
        print(f"  instead of {old!r} {new!r}: {reason}")
    return code


def commands(block: Block, code: str) -> list[str]:
    """The lines of a shell block that are to run."""
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("#")]
    for text in block.all("skip-line"):
        start, _, reason = text.rpartition(": ")
        kept = [line for line in lines if not line.startswith(start)]
        if len(kept) == len(lines):
            raise Failure(f"block {block.number}: no line starts with {start!r}")
        print(f"  skipped: {start} ... ({reason})")
        lines = kept
    return lines


class Place:
    """The clone, and the environment that commands run in."""

    def __init__(self, folder: Path, python: str) -> None:
        self.clone, self.venv, self.python = folder / "clone", folder / "venv", python
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1",  # what needs the hub has to say so
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
        }

    def prepare(self) -> None:
        if self.clone.exists():
            shutil.rmtree(self.clone)
        self.run(["git", "clone", "--quiet", str(ROOT), str(self.clone)], Path.cwd())
        dist = self.clone.parent / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        self.run([sys.executable, "-m", "build", "--no-isolation", "-o", dist], self.clone)
        (wheel,) = dist.glob("*.whl")
        if not self.venv.exists():
            self.run([self.python, "-m", "venv", self.venv], self.clone)
        pip = [self.venv / "bin/python", "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "-c", "constraints.txt"]
        torch = re.search(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
        assert torch is not None
        self.run([*pip, torch.group()], self.clone)
        self.run([*pip, "--force-reinstall", "--no-deps", wheel], self.clone)
        self.run([*pip, f"{wheel}[{EXTRAS}]"], self.clone)

    def run(self, command: list[object] | str, folder: Path) -> None:
        """A program with its arguments, or a line for the shell as a reader types it."""
        arguments = ["bash", "-c", command] if isinstance(command, str) else list(map(str, command))
        environment = self.environment
        if isinstance(command, str) and command.startswith("make"):
            environment = environment | {"PATH": os.environ["PATH"], "PYTHON": self.python}
        began = time.monotonic()
        done = subprocess.run(
            arguments, cwd=folder, env=environment, stdin=subprocess.DEVNULL, timeout=TIME_LIMIT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if isinstance(command, str):
            print(f"  $ {command}\n    -> {done.returncode}, {time.monotonic() - began:.0f} s")
        if done.returncode:
            shown = "\n".join(done.stdout.splitlines()[-40:])
            raise Failure(f"{' '.join(arguments)}: exit status {done.returncode}\n{shown}")


def check(block: Block, place: Place) -> None:
    """Run one block, or say why not."""
    print(f"block {block.number}, line {block.line}, {block.language or 'no language'}:")
    for reason in block.all("skip"):
        print(f"  skipped: {reason}")
        return
    if block.language not in ("sh", "python"):
        raise Failure(f"block {block.number} is {block.language!r}; expected sh, python or a skip")
    for command in block.all("before"):
        place.run(command, place.clone)
    code = prepared(block)
    if block.language == "sh":
        for line in commands(block, code):
            place.run(line, place.clone)
        return
    script = place.clone / f"readme-block-{block.number}.py"
    preludes = []
    for text in block.all("prelude"):
        file, _, reason = text.rpartition(": ")
        preludes.append((place.clone / file).read_text(encoding="utf-8"))
        print(f"  after {file}: {reason}")
    script.write_text("\n".join([*preludes, code]), encoding="utf-8")
    place.run(f"python {script.name}", place.clone)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("readme", nargs="?", type=Path, default=ROOT / "README.md")
    parser.add_argument("--python", default="python3.11", help="makes the environment")
    parser.add_argument("--keep", type=Path, help="keep the clone and the environment there")
    parser.add_argument("--only", help="numbers of blocks, with commas between them")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it takes minutes
    with tempfile.TemporaryDirectory() as scratch:
        place = Place((options.keep or Path(scratch)).absolute(), options.python)
        place.clone.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = blocks(options.readme.read_text(encoding="utf-8"))
            wanted = set(map(int, options.only.split(","))) if options.only else None
            place.prepare()
            for block in found:
                if wanted is None or block.number in wanted:
                    check(block, place)
        except Failure as failure:
            print(f"readme-check: {failure}", file=sys.stderr)
            return 1
    print(f"readme-check: {len(wanted or found)} of {len(found)} blocks, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
