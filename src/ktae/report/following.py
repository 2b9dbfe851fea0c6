"""A run while it is being written: every step's file is read once, when it is there.

A step is a file: of a run folder of ktae, of TRL's `completions/`, of verl's `rollout_data_dir`. A
file counts as written when it looked the same in two looks. One that cannot be read is tried again
when it has changed, and one that has changed is read again.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import as_estimator
from ktae.report import sampling, summary
from ktae.report.columns import columns_of
from ktae.report.contents import contents, text_of
from ktae.report.inputs import (
    Dump,
    from_record,
    load,
    own_tokenizer,
    require_rollouts,
    trained_with,
)
from ktae.report.totals import TOKENS_OVER_STEPS, token_totals
from ktae.rollouts.folders import choose_files
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.tokens import load_tokenizer
from ktae.runs import MetricsTail, RunFolder

LOOK_SECONDS = 0.2
"""Between two looks at the folder."""

MAX_DUMP_BYTES = 1 << 29
MAX_PAGE_BYTES = 1 << 28
"""What is kept in memory of the rollouts, and of what pages have asked for. What is dropped for
others is read again where a page asks for it."""

Look = tuple[int, int]
"""A file's size in bytes, and when it was changed, in nanoseconds."""

K = TypeVar("K")
V = TypeVar("V")


class Step(NamedTuple):
    """One file that was read."""

    number: int
    """Counts what was read, from 1. A file that is read again gets a new one."""
    name: str
    """The file, below the folder."""
    rollouts: int
    rows: list[dict[str, Any]]
    """One for each training step in it: `step`, `values` of its curves by name, and `tokens`, each
    [id, text, impact, credit], strongest first."""


class Following:
    """What is known of a run so far; every method may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        options: ReadOptions = DEFAULT,
        *,
        estimator: AnEstimator | None = None,
        max_tokens: int = sampling.MAX_TOKENS,
        max_groups: int | None = None,
        regrade: bool = True,
    ) -> None:
        """Nothing is read yet, and the folder need not exist.

        Args:
            folder: the run's.
            options: how its files are read.
            estimator: the one that the run was trained with by default, or the paper's.
            max_tokens: as in `ktae.report.write_report`, for each step's page.
            max_groups: likewise.
            regrade: as in `ktae.report.write_report`.
        """
        self.folder = folder
        self.session = secrets.token_hex(8)
        self._given = None if estimator is None else as_estimator(estimator)
        self._bounds: dict[str, Any] = {"max_tokens": max_tokens, "max_groups": max_groups}
        self._regrade, self._options = regrade, options
        self._tokenizer = load_tokenizer(options.tokenizer) if options.tokenizer else None
        self._words: dict[str, int] = {}
        self._number = 0
        self._ended = False
        self._looks: dict[Path, Look] = {}
        self._tried: dict[Path, Look] = {}
        self._steps: dict[Path, Step] = {}
        self._troubles: dict[str, str] = {}
        self._metrics = MetricsTail(RunFolder(folder))
        self._logged: dict[int, tuple[int, dict[str, float]]] = {}
        self._logged_anew = 0
        self._changed = threading.Condition()
        self._loading = threading.Lock()
        self._computing = {False: threading.Lock(), True: threading.Lock()}
        self._dumps: _Kept[int, Dump] = _Kept(MAX_DUMP_BYTES, lambda x: x.rollouts.nbytes)
        self._pages: _Kept[tuple[int, bool], dict[str, str]] = _Kept(
            MAX_PAGE_BYTES, lambda blocks: sum(map(len, blocks.values()))
        )

    def look(self) -> None:
        """Look at the folder once, and read what is new: the newest file first."""
        files = _step_files(self.folder)
        if not files:
            self._find_tokenizer()  # the first step is not to wait for it
        self._forget(files)
        before = self._looks
        self._looks = {file: look for file in files if (look := _look(file)) is not None}
        for place, file in reversed(list(enumerate(files, start=1))):
            now = self._looks.get(file)
            if now is not None and before.get(file) == now and self._tried.get(file) != now:
                self._tried[file] = now
                self._read(file, place)
        self._read_metrics()

    def watch(self, stop: threading.Event) -> None:
        """Look again and again until `stop` is set."""
        _warm_up()
        while not stop.wait(LOOK_SECONDS):
            try:
                self.look()
                self._trouble(str(self.folder), None)
            except InputError as error:
                self._trouble(str(self.folder), str(error))
            except Exception as error:  # the thread is to live: the page says it
                self._trouble(str(self.folder), f"{type(error).__name__}: {error}")

    def end(self) -> None:
        """Let those go who wait for changes, now and from now on."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def changes(self, after: int, timeout: float) -> dict[str, Any]:
        """What is new since `after`, as JSON; waits up to `timeout` seconds until there is any.

        Returns:
            `session`, another one for another process; `number`, the `after` of the next call;
            `order`, the numbers of all steps; `steps`, the new ones; `logged`, new metrics by
            training step, and `anew`, whether those replace all from before; `troubles`, what
            cannot be read and why.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._number > after or self._ended, timeout)
            steps = [self._steps[file] for file in self._looks if file in self._steps]
            anew = after < self._logged_anew
            return {
                "session": self.session,
                "number": self._number,
                "order": [step.number for step in steps],
                "steps": [step._asdict() for step in steps if step.number > after],
                "logged": {
                    step: values
                    for step, (number, values) in self._logged.items()
                    if anew or number > after
                },
                "anew": anew,
                "troubles": dict(self._troubles),
            }

    def page(self, number: int, *, whole: bool) -> dict[str, str] | None:
        """The data blocks of one step's page (`ktae.report.contents`); None for one that is gone.

        Args:
            number: the step's.
            whole: with how far to believe the numbers, and the verdicts compared with ktae's own
                grader. That takes seconds, the rest milliseconds.

        Raises:
            InputError: the step's file had to be read again, and cannot be.
        """
        with self._computing[whole]:
            kept = self._pages.get((number, whole))
            if kept is not None:
                return kept
            with self._changed:
                files = [file for file, step in self._steps.items() if step.number == number]
            if not files:
                return None
            dump = self._dumps.get(number) or self._load(files[0])
            blocks = contents(
                dump,
                self._given,
                **self._bounds,
                regrade=self._regrade and whole,
                believe=whole,
            ).blocks
            self._dumps.put(number, dump)
            self._pages.put((number, whole), blocks)
            return blocks

    def _publish(self) -> int:
        """The number of what changes now; the caller holds the lock."""
        self._number += 1
        self._changed.notify_all()
        return self._number

    def _trouble(self, name: str, message: str | None) -> None:
        """Publish what is wrong with a file, or that nothing is."""
        with self._changed:
            if self._troubles.get(name) == message:
                return
            self._troubles.pop(name, None)
            if message is not None:
                self._troubles[name] = message
            self._publish()

    def _forget(self, files: list[Path]) -> None:
        """Drop the steps of files that are gone: a run that is resumed writes them again."""
        for file in self._tried.keys() - set(files):
            with self._changed:
                del self._tried[file]
                self._steps.pop(file, None)
                self._troubles.pop(self._name(file), None)
                self._publish()

    def _read(self, file: Path, place: int) -> None:
        """Read one file, and publish it or why it cannot be read."""
        name = self._name(file)
        try:
            dump = self._load(file)
            rows = _rows(dump, place)
        except InputError as error:
            self._trouble(name, str(error))
            return
        except Exception as error:  # it is not tried again, so the page has to go on saying it
            self._trouble(name, f"{type(error).__name__}: {error}")
            return
        with self._changed:
            number = self._publish()
            self._steps[file] = Step(number, name, len(dump.rollouts), rows)
            self._troubles.pop(name, None)
            self._dumps.put(number, dump)

    def _read_metrics(self) -> None:
        lines, anew = self._metrics.look()
        if not lines and not anew:
            return
        with self._changed:
            number = self._publish()
            if anew:
                self._logged, self._logged_anew = {}, number
            for step, line in lines.items():
                found = {name: summary.first_number(line, x) for name, x in summary.LOGGED.items()}
                values = {name: value for name, value in found.items() if value is not None}
                self._logged[step] = (number, values)

    def _load(self, file: Path) -> Dump:
        with self._loading:  # words are numbered one dump after the other
            self._find_tokenizer()
            options = dataclasses.replace(self._options, tokenizer=self._tokenizer)
            dump = load([file], options, words=self._words, growing=True)
            require_rollouts(dump)
            dump.estimator = self._given or trained_with([self.folder])
            return dump

    def _find_tokenizer(self) -> None:
        if self._tokenizer is None and (own := own_tokenizer([self.folder])) is not None:
            self._tokenizer = load_tokenizer(str(own))

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.folder))


class _Kept(Generic[K, V]):
    """The values that were used last, up to `most` bytes; the newest is kept in any case."""

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        self._most, self._size = most, size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while (
                len(self._values) > 1 and sum(map(self._size, self._values.values())) > self._most
            ):
                self._values.popitem(last=False)


def _step_files(folder: Path) -> list[Path]:
    """The step files of a run, in their order; none where there are none yet.

    Raises:
        InputError: the folder holds other things and nothing that can be read.
    """
    inner = [folder / name for name in ("rollouts", "completions")]
    found = next((path for path in inner if path.is_dir()), None)
    if found is None and ((folder / "recipe.yaml").is_file() or not folder.is_dir()):
        return []  # ktae's other files are no rollouts
    try:
        return choose_files(found or folder)[0]
    except OSError:  # one went away meanwhile
        return []
    except InputError:
        if any((found or folder).iterdir()):
            raise
        return []


def _look(file: Path) -> Look | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _warm_up() -> None:
    """Load whatever is compiled, so that the first step does not wait for it."""
    rows = [
        {"group": "0", "response": text, "reward": r, "correct": r}
        for r, text in enumerate(("no", "yes"))
    ]
    dump = from_record(pa.Table.from_pylist(rows))
    _rows(dump, 1)
    contents(dump, regrade=False, believe=False)


def _rows(dump: Dump, place: int) -> list[dict[str, Any]]:
    """`Step.rows`; rollouts that name no step get `place`, that of their file."""
    columns = columns_of(dump)
    scored = summary.score(columns, summary.presets_of(dump.estimator, "")[0][1])
    step_g = np.array([place if x is None else x for x in columns.steps], dtype=np.int64)
    steps = sorted(set(step_g.tolist()))
    series = summary.series_of(columns, scored, step_g, steps)
    rows = []
    for i, step in enumerate(steps):
        values = {name: values[i] for name, values in series.items()}
        tokens = [] if scored.table is None else _tokens(dump, _at(scored.table, step, place))
        rows.append({"step": step, "values": values, "tokens": tokens})
    return rows


def _at(table: Any, step: int, place: int) -> Any:
    """A credit table's rows of one step."""
    return table.filter(pc.equal(pc.fill_null(table["step"], place), step))


def _tokens(dump: Dump, table: Any) -> list[list[Any]]:
    """The tokens of greatest |impact| in a credit table."""
    totals = token_totals(table, dump.token_ids)
    strongest = np.argsort(-np.abs(totals.impact), kind="stable")[:TOKENS_OVER_STEPS]
    return [
        [int(dump.token_ids[i]), text_of(dump.texts[i]), totals.impact[i], totals.credit[i]]
        for i in strongest.tolist()
        if totals.impact[i]
    ]
