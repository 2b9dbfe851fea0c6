"""`ktae skill`: how a coding agent reads rollouts with ktae."""

from __future__ import annotations

from pathlib import Path

import typer


def run() -> None:
    """Print a SKILL.md, which tells a coding agent how to read rollouts.

    `ktae skill > .claude/skills/ktae/SKILL.md`
    """
    typer.echo(Path(__file__).parents[1].joinpath("SKILL.md").read_text("utf-8"), nl=False)
