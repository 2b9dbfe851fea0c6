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
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="Choose each model's temperature on validation problems; writes validated.csv.",
        ),
    ] = False,
    problems: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Held-out problems [default: 256, with --best 1024]."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Answers to each [default: 8, with --best 4]."),
    ] = None,
) -> None:
    """Let a study's final models answer at several temperatures; writes `temperatures.csv`.

    What is measured already stays, so that a second call measures the runs that came since.
    """
    from ktae_lab.measurement import measure_study
    from ktae_lab.study.folder import StudyFolder
    from ktae_lab.temperatures import by_temperature
    from ktae_lab.validated import SIZE, at_the_best_temperature

    given = {"problems": problems, "samples": samples}
    asked = {name: number for name, number in given.items() if number is not None}
    measurement = at_the_best_temperature(SIZE | asked) if best else by_temperature(**asked)
    chosen = methods.split(",") if methods is not None else None
    for line in measure_study(measurement, matrix, StudyFolder(folder), methods=chosen, jobs=jobs):
        typer.echo(line)
