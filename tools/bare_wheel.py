"""Run in an environment that holds the wheel and nothing else: what is there, and does it work?"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

DIRECT = {
    "numpy",
    "numba",
    "pydantic",
    "pyyaml",
    "typer",
    "rich",
    "pyarrow",
    "scipy",
    "typing-extensions",
}
"""What `pip install ktae` asks for."""
THEIRS = {
    *("llvmlite", "annotated-types", "pydantic-core", "typing-extensions", "typing-inspection"),
    *("annotated-doc", "shellingham", "markdown-it-py", "mdurl", "pygments"),
}
"""What those ask for, on Linux."""
INSTALLERS = {"pip", "setuptools"}
ABSENT = ("torch", "trl", "verl", "transformers", "pandas", "matplotlib", "jinja2")

ROLLOUTS = [
    {"group": 0, "token_ids": [1, 2, 3], "reward": 1},
    {"group": 0, "token_ids": [1, 2, 4], "reward": 0},
    {"group": 0, "token_ids": [1, 2, 3, 3], "reward": 1},
]
KTAE = Path(sys.executable).with_name("ktae")


def main() -> None:
    check_what_came()
    check_files()
    check_command_line()
    check_completion()
    check_scoring()


def check_what_came() -> None:
    asked = importlib.metadata.requires("ktae") or []
    names = {re.split(r"[^\w-]", line)[0].lower() for line in asked if "extra ==" not in line}
    assert names == DIRECT, f"pip install ktae asks for {names}; expected {DIRECT}"
    found = {d.metadata["Name"] for d in importlib.metadata.distributions()}
    brought = {name.lower().replace("_", "-") for name in found} - INSTALLERS - {"ktae"}
    unexpected = brought - DIRECT - THEIRS
    assert not unexpected, f"pip install ktae also brings {sorted(unexpected)}"
    for name in ABSENT:
        assert importlib.util.find_spec(name) is None, f"{name} can be imported here"
    print(f"pip install ktae brings {len(brought)} packages: {', '.join(sorted(brought))}")


def check_files() -> None:
    package = importlib.resources.files("ktae")
    for name in ("py.typed", "report/web/page.html"):
        assert (package / name).is_file(), f"the wheel lacks {name}"


def check_command_line() -> None:
    version = importlib.metadata.version("ktae")
    assert ktae("--version") == f"ktae {version}\n", ktae("--version")
    assert "score" in ktae("--help")


def check_completion() -> None:
    """What a shell asks when the user presses the tab key after `ktae sco`."""
    typed = {"_KTAE_COMPLETE": "complete_bash", "COMP_WORDS": "ktae sco", "COMP_CWORD": "1"}
    assert ktae(**typed).split() == ["score"], ktae(**typed)


def check_scoring() -> None:
    import pyarrow.parquet

    lines = "".join(json.dumps(row) + "\n" for row in ROLLOUTS)
    Path("rollouts.jsonl").write_text(lines, encoding="utf-8")
    ktae("score", "rollouts.jsonl", "--output", "scores.parquet")
    credit = pyarrow.parquet.read_table("scores.parquet")["credit"].to_pylist()
    assert credit[0][2] > 0 > credit[1][2] and credit[0][:2] == [0, 0], credit
    print("scored", credit)


def ktae(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [KTAE, *arguments], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"ktae {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    main()
