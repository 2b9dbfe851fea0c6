"""`ktae-lab temperatures`: accuracy of a study's models at their best temperature."""

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
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Measure in so many processes.")
    ] = 1,
    problems: Annotated[
        int, typer.Option(min=2, max=1024, metavar="N", help="Take so many test problems.")
    ] = 1024,
    samples: Annotated[
        int, typer.Option(min=2, metavar="N", help="Draw so many answers to each test problem.")
    ] = 4,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compute here: cpu or cuda [default: cuda where there is a GPU].",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a study's final models answer at the temperature that suits each; writes `validated.csv`.

    Half as many validation problems, with half the answers, choose the temperature. What is
    measured already stays, so that a second call measures the runs that came since.
    """
    from ktae_lab.best_temperature import measure_study
    from ktae_lab.csv_files import read_table
    from ktae_lab.study import matrix as matrices
    from ktae_lab.study.cells import expand
    from ktae_lab.study.folder import StudyFolder

    screen, study = Screen(as_json), StudyFolder(folder)
    cells = expand(matrices.load(matrix), matrix)
    size = {"problems": problems, "samples": samples}
    for line in measure_study(cells, study, **size, jobs=jobs, device=device):
        screen.progress.print(line, soft_wrap=True)
    measured = study.validated_csv.exists()  # not before the first run has finished
    screen.end(read_table(study.validated_csv).to_dict("records") if measured else [])
