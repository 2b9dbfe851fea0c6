"""`ktae-lab study`: a matrix in, runs, tables and figures out."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ktae_lab.study.cells import Cell
    from ktae_lab.study.contrasts import Compared
    from ktae_lab.study.folder import State, StudyFolder
    from ktae_lab.study.matrix import Matrix
    from ktae_lab.study.results import Results


def study(
    matrix: Annotated[
        Path,
        typer.Argument(
            metavar="MATRIX", help="The matrix: a YAML file, such as those in lab/matrices."
        ),
    ],
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Do so many runs at a time.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the study in the folder, or extend it.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Run failed runs again: from their beginning, killed ones from their checkpoint.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write the study to this folder [default: studies/NAME].",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the matrix and list its runs; run nothing.")
    ] = False,
    adopt: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Take over finished runs from a study's folder that has its results and need not "
            "have its runs: a clone's, another machine's.",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Run these methods only, for now, with commas between."),
    ] = None,
    results_only: Annotated[
        bool,
        typer.Option(
            "--results-only", help="Run nothing; write tables and figures of what is there."
        ),
    ] = False,
    overwrite_results: Annotated[
        bool,
        typer.Option(
            "--overwrite-results", help="Write results also over those of more finished runs."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train every method on every seed, and compare them as announced in the matrix."""
    from ktae_lab.study import cells as expansion
    from ktae_lab.study import matrix as matrices
    from ktae_lab.study import results
    from ktae_lab.study.folder import State, StudyFolder
    from ktae_lab.study.runner import run

    screen = Screen(as_json)
    loaded = matrices.load(matrix)
    cells = expansion.expand(loaded, matrix)
    due = expansion.of_methods(cells, methods.split(",")) if methods is not None else cells
    folder = StudyFolder(output or Path("studies") / loaded.name)
    if adopt is not None and (dry_run or results_only):
        raise InputError("--adopt is for a study that runs: not with --dry-run or --results-only")
    if dry_run:
        if as_json:
            raise InputError("--dry-run lists runs and prints no numbers; leave out --json")
        _list(screen.console, due, folder)
        return

    def write_results() -> Results:
        found = results.write(loaded, cells, folder, overwrite=overwrite_results)
        _print(screen.console, found, folder)
        screen.end(json.loads(folder.results.read_text(encoding="utf-8")))
        return found

    if results_only:  # without the lock: also while another process runs the study
        found = write_results()
    else:
        with _opened(screen.progress, loaded, cells, folder, resume or retry_failed, adopt):
            with _Progress(screen.progress, due, folder) as progress:
                stopped_by = run(
                    due, folder, jobs=jobs, progress=progress, retry_failed=retry_failed
                )
            if stopped_by is not None:
                _stop_interrupted(screen.progress, write_results, stopped_by)
            found = write_results()
    if found.count(State.FAILED):
        raise typer.Exit(1)


@contextlib.contextmanager
def _opened(
    console: Console,
    loaded: Matrix,
    cells: Sequence[Cell],
    folder: StudyFolder,
    resume: bool,
    adopt: Path | None,
) -> Iterator[None]:
    """The study's folder, locked, with the finished runs of the study to adopt."""
    from ktae_lab.study import adopt as adoption
    from ktae_lab.study import figures
    from ktae_lab.study.folder import StudyFolder

    figures.require_libraries()  # before the runs, not after them
    elsewhere = adoption.read(loaded, cells, StudyFolder(adopt)) if adopt is not None else None
    announced = elsewhere.announced if elsewhere is not None else None
    with folder.open(loaded, cells, resume=resume, announced=announced):
        if elsewhere is not None:
            n = adoption.take_over(elsewhere, folder)
            total, unmeasured = elsewhere.n_finished, elsewhere.n_unmeasured
            console.print(f"took over {n} of {total} finished runs from {adopt}", soft_wrap=True)
            if unmeasured:
                console.print(
                    f"{unmeasured} were not measured at their best temperature, and their models "
                    "are not here: they are trained again",
                    soft_wrap=True,
                )
        yield


def _stop_interrupted(
    console: Console, write_results: Callable[[], object], stopped_by: int
) -> NoReturn:
    """Write what there is, where that loses nothing, and leave with the signal's status."""
    try:
        write_results()
    except InputError as error:
        console.print(str(error), soft_wrap=True)
    console.print("interrupted; --resume continues")
    raise typer.Exit(128 + stopped_by)


class _Progress:
    """A bar over all training steps with the time left; a line a run where there is no terminal."""

    def __init__(self, console: Console, cells: Sequence[Cell], folder: StudyFolder) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        from ktae_lab.study.folder import State

        self.console = console
        self.cells = {cell.name: cell for cell in cells}
        self.states = {cell.name: folder.state(cell) for cell in cells}
        self.running: dict[str, int] = {}
        self.before: dict[str, int] = {}
        self.done_now = 0
        self.began = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.fields[runs]}"), BarColumn(), TextColumn("{task.fields[left]}"),
            console=console, disable=not console.is_terminal,
        )  # fmt: skip
        total = sum(cell.recipe.steps for cell in cells)
        self.task = self.bar.add_task("", total=total, runs="", left="")
        if n := sum(state is State.FINISHED for state in self.states.values()):
            console.print(f"{n} of {len(cells)} runs are finished already")

    def __enter__(self) -> _Progress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def started(self, cell: Cell) -> None:
        from ktae_lab.study.folder import State

        self.states[cell.name] = State.UNFINISHED  # a failed one is open again
        self.running[cell.name] = 0
        self.before.pop(cell.name, None)
        if not self.console.is_terminal:
            self.console.print(f"started {cell.name}", soft_wrap=True)

    def steps(self, done: Mapping[str, int]) -> None:
        for name, steps in done.items():
            # A resumed run has steps that were not done now, and would make us look fast. Once it
            # has loaded, it drops those after its checkpoint.
            self.before[name] = min(steps, self.before.get(name, steps))
            self.running[name] = steps
        self._show()

    def ended(self, cell: Cell, state: State, seconds: float) -> None:
        self.states[cell.name] = state
        self.done_now += self.running.pop(cell.name, 0) - self.before.get(cell.name, 0)
        self._show()
        self.console.print(
            f"{state.value} {cell.name} in {in_words(seconds)}; {self._runs()}; {self._left()}",
            soft_wrap=True,
        )

    def _show(self) -> None:
        from ktae_lab.study.folder import State

        is_over = (State.FINISHED, State.FAILED)
        over = [self.cells[n].recipe.steps for n, s in self.states.items() if s in is_over]
        completed = sum(over) + sum(self.running.values())
        self.bar.update(self.task, completed=completed, runs=self._runs(), left=self._left())

    def _runs(self) -> str:
        from ktae_lab.study.folder import State

        finished, failed = (
            sum(state is wanted for state in self.states.values())
            for wanted in (State.FINISHED, State.FAILED)
        )
        return f"{finished} of {len(self.cells)} runs" + (f", {failed} failed" if failed else "")

    def _left(self) -> str:
        """From the pace since this process began."""
        from ktae_lab.study.folder import State

        under_way = sum(n - self.before.get(name, 0) for name, n in self.running.items())
        now = self.done_now + under_way
        is_over = (State.FINISHED, State.FAILED)
        open_steps = sum(
            self.cells[n].recipe.steps for n, s in self.states.items() if s not in is_over
        )
        to_do = open_steps - sum(self.running.values())
        if not now:
            return "time left unknown" if to_do else "nothing left"
        return f"about {in_words((time.monotonic() - self.began) * to_do / now)} left"


def in_words(seconds: float) -> str:
    """`2 h 5 min`, `3 min`, `20 s`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _list(console: Console, cells: Sequence[Cell], folder: StudyFolder) -> None:
    """The runs, with what is known of them."""
    for cell in cells:
        what = f"{cell.recipe_file} {' '.join(cell.overrides)}"
        console.print(f"{cell.name} ({folder.state(cell).value}): {what}", soft_wrap=True)
    steps = sum(cell.recipe.steps for cell in cells)
    console.print(f"{len(cells)} runs, {steps} training steps, into {folder.path}", soft_wrap=True)


def _print(console: Console, found: Results, folder: StudyFolder) -> None:
    from ktae_lab.study.contrasts import in_words as conclusion
    from ktae_lab.study.folder import State

    counts = ", ".join(f"{found.count(s)} {s.value}" for s in State if found.count(s))
    console.print(f"{len(found.runs)} runs planned: {counts}")
    for run in found.runs:
        if run.state is State.FAILED:
            log = folder.beside(run.cell, ".log")
            console.print(f"  {run.cell.name} {run.why_missing}; see {log}", soft_wrap=True)
    for kind in ("confirmatory", "exploratory"):
        if of_kind := [one for one in found.compared if one.kind == kind]:
            console.print(_table(kind, of_kind))
    for one in found.compared:
        if one.kind == "confirmatory" or one.note:
            console.print(conclusion(one) + (f" ({one.note})" if one.note else ""), soft_wrap=True)
    console.print(
        f"wrote {folder.results}, {folder.runs_csv.name}, {folder.curves_csv.name} and "
        f"{len(found.pictures)} figures in {folder.figures}",
        soft_wrap=True,
    )


def _table(kind: str, compared: Sequence[Compared]) -> Table:
    """Comparisons of one kind, which are one family of Holm's correction."""
    from rich.table import Table

    table = Table(title=f"{kind}: p corrected for {compared[0].family} comparisons (Holm)")
    for column in ("contrast", "outcome", "pairs", "difference", "95 % interval", "p", "Holm"):
        table.add_column(column, overflow="fold")
    for one in compared:
        low_high, p, holm = "not enough", "", ""
        if one.interval is not None:
            low_high = f"{one.interval.low:+.3g} to {one.interval.high:+.3g}"
            p, holm = f"{one.p_value:.2g}", f"{one.corrected:.2g}"
        table.add_row(
            f"{one.treatment} - {one.baseline}" + (f" ({one.task})" if one.task else ""),
            one.outcome,
            f"{len(one.seeds)} of {one.planned}",
            "" if one.difference is None else f"{one.difference:+.3g}",
            low_high,
            p,
            holm,
        )
    return table
