"""`ktae-lab temperatures`: accuracy of a study's models against temperature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def temperatures(
    matrix: Annotated[Path, typer.Argument(help="The study's matrix (YAML).")],
    folder: Annotated[Path, typer.Argument(help="The study's folder, with its runs.")],
    methods: Annotated[
        str | None, typer.Option(help="These methods only: names with commas between them.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    problems: Annotated[int, typer.Option(min=1, max=1024, help="Held-out problems.")] = 256,
    samples: Annotated[int, typer.Option(help="Answers to each problem; 8 or more.")] = 8,
) -> None:
    """Let a study's final models answer at four temperatures; writes `temperatures.csv`.

    What is measured already stays, so that a second call measures the runs that came since.
    """
    from ktae_lab.study.folder import StudyFolder
    from ktae_lab.temperatures import measure_study

    chosen = methods.split(",") if methods is not None else None
    for line in measure_study(
        matrix, StudyFolder(folder), methods=chosen, jobs=jobs, problems=problems, samples=samples
    ):
        typer.echo(line)
