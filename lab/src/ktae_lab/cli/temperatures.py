"""`ktae-lab temperatures`: accuracy of a study's models against temperature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli.printing import AsJson, Screen


def temperatures(
    matrix: Annotated[
        Path, typer.Argument(metavar="MATRIX", help="The study's matrix: a YAML file.")
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The study's folder, with its runs.")
    ],
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Measure these methods only, with commas between."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Measure in so many processes.")
    ] = 1,
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="Choose each model's temperature on validation problems, half as many with half "
            "the answers; writes validated.csv.",
        ),
    ] = False,
    problems: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            metavar="N",
            help="Take so many held-out problems [default: 256, with --best 1024].",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Draw so many answers to each problem [default: 8, with --best 4].",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a study's final models answer at several temperatures; writes `temperatures.csv`.

    What is measured already stays, so that a second call measures the runs that came since.
    """
    from ktae_lab.csv_files import read_csv
    from ktae_lab.measurement import measure_study
    from ktae_lab.study.folder import StudyFolder
    from ktae_lab.temperatures import by_temperature
    from ktae_lab.validated import at_the_best_temperature

    given = {"problems": problems, "samples": samples}
    asked = {name: number for name, number in given.items() if number is not None}
    measurement = (at_the_best_temperature if best else by_temperature)(**asked)
    screen = Screen(as_json)
    chosen = methods.split(",") if methods is not None else None
    for line in measure_study(measurement, matrix, StudyFolder(folder), methods=chosen, jobs=jobs):
        screen.progress.print(line, soft_wrap=True)
    screen.end(read_csv(StudyFolder(folder).path / measurement.file))
