"""`ktae validate`: does credit tell held-out correct rollouts from incorrect ones?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.options import (
    JsonFile,
    Settings,
    estimator_of,
    one_of,
    require_outputs,
    require_picture,
    section_of,
    with_settings,
)
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import Reading, note, note_unit, reads_rollouts
from ktae.cli.tables import make_table
from ktae.errors import InputError
from ktae.estimators import PRESETS, Estimator, preset

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from rich.table import Table

    from ktae.batch import Vocabulary
    from ktae.report.inputs import Dump
    from ktae.validity.scores import HeldOut

LEGEND = """\
held-out      share of pairs whose correct rollout gets more credit, mean over groups (chance: .50)
permuted      the same with labels permuted within groups: what chance gives
shorter       a baseline: the shorter rollout is called correct
majority      a baseline: the answer that more of the other rollouts give
"""


@reads_rollouts
def validate(
    reading: Reading,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            metavar="NAME",
            autocompletion=one_of(PRESETS),
            help=f"Compare this estimator: {', '.join(PRESETS)}, or a recipe's section such as "
            "'{estimator: ktae, h3: 0}'. Can be given several times [default: all of these; with "
            "--set the run's, or else paper].",
        ),
    ] = None,
    settings: Settings = None,
    until: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Look at this first share of each rollout only, such as 0.5."
        ),
    ] = None,
    before_answer: Annotated[
        bool,
        typer.Option(
            "--before-answer", help="Look only at what stands before the answer is first stated."
        ),
    ] = False,
    pairs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Hold out at most so many pairs of a group.")
    ] = 16,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Draw pairs and permutations with this seed.")
    ] = 0,
    output: JsonFile = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a forest plot into this .png or .svg file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which estimator tells correct rollouts from incorrect ones that it has not seen?

    Of each group one correct and one incorrect rollout are left out; credit comes from the rest.
    How often does the correct one get more?
    """
    from rich.console import Console

    from ktae.validity import held_out
    from ktae.validity.advice import advice

    if until is not None and before_answer:
        raise InputError("--until and --before-answer exclude each other; give one")
    if until is not None and not 0 < until <= 1:
        raise InputError(f"--until is {until:g}; expected a number above 0, at most 1")
    chosen = _estimators(estimators, settings, reading.inputs)
    _check_outputs(reading.inputs, output, plot)
    screen = Screen(as_json)
    dump = reading.load()
    keep, answers = _looked_at(dump, until, before_answer)
    with Console(stderr=True).status("holding out"):
        found = held_out.held_out_pairs(
            dump.rollouts, chosen, keep=keep, answers=answers, pairs=pairs, seed=seed,
            vocabulary=_vocabulary(reading, chosen),
        )  # fmt: skip
    note_unit(dump)
    advised = advice(found)
    _print(screen.console, found, until, before_answer)
    screen.console.print("\n".join(advised.lines), soft_wrap=True)
    if plot is not None:
        from ktae.validity.forest import write_forest

        write_forest(found, plot)
        screen.console.print(f"wrote {plot}", soft_wrap=True)
    of = {"until": until, "before_answer": before_answer, "unit": dump.unit}
    screen.end(found.as_dict() | of | {"advice": advised.as_dict()}, output)


def _estimators(
    given: list[str] | None, settings: list[str] | None, inputs: list[Path]
) -> dict[str, Estimator]:
    """By the name under which each is shown; the settings are of every one that is named."""
    if settings and not given:
        one = estimator_of(None, settings, inputs)
        return {} if one is None else {str(one): one}
    if not given:
        return {name: preset(name) for name in PRESETS}
    return {
        ", ".join([text, *(settings or ())]): with_settings(section_of(text), settings)
        for text in given
    }


def _check_outputs(inputs: list[Path], output: Path | None, plot: Path | None) -> None:
    """Before anything is computed."""
    require_outputs(inputs, ("--output", output), ("--plot", plot))
    require_picture("--plot", plot)


def _vocabulary(reading: Reading, chosen: dict[str, Estimator]) -> Vocabulary | None:
    """The tokens' texts, where an estimator is of words, lines or steps."""
    from ktae.report.inputs import own_tokenizer
    from ktae.rollouts.tokens import load_tokenizer, vocabulary

    needed = [name for name, one in chosen.items() if one.needs_vocabulary]
    if not needed:
        return None
    named = reading.tokenizer or own_tokenizer(reading.inputs)
    if named is None:
        raise InputError(f"--estimator {needed[0]} is made of words or lines; give --tokenizer")
    return vocabulary(load_tokenizer(str(named)))


def _looked_at(
    dump: Dump, until: float | None, before_answer: bool
) -> tuple[np.ndarray | None, Sequence[str | None]]:
    """How many tokens of each rollout, and the answers that the rollouts give."""
    from ktae.validity import prefixes

    if until is not None:
        return prefixes.first_share(dump.rollouts, until), prefixes.AskedAnswers(dump.rollouts)
    if not before_answer:
        return None, prefixes.AskedAnswers(dump.rollouts)
    stated = prefixes.stated_answers(dump.rollouts)
    before = prefixes.before_answer(dump.rollouts, dump.token_ids, dump.texts, stated)
    if before.unanswered:
        note(
            f"{before.unanswered:,} of {len(stated):,} responses state no answer; they are "
            f"cut after {100 * before.share:.0f} %, the median of the others"
        )
    return before.keep, prefixes.AskedAnswers(dump.rollouts)


def _print(console: Any, found: HeldOut, until: float | None, before_answer: bool) -> None:
    part = f"the first {100 * until:g} % of each rollout" if until is not None else "whole rollouts"
    part = "what stands before the answer" if before_answer else part
    looked_at, *left_out = found.counts()
    console.print(f"{looked_at}; {part}", soft_wrap=True)
    for line in left_out:
        console.print(line, soft_wrap=True)
    console.print(_table(found))
    console.print(LEGEND, style="dim", soft_wrap=True)


def _table(found: HeldOut) -> Table:
    from ktae.validity.scores import COLUMNS

    table = make_table("Held-out pairs", COLUMNS)
    table.columns[0].no_wrap = False  # a recipe's section may be long
    table.columns[0].overflow = "fold"
    for score in found.ranked():
        table.add_row(score.name, *score.cells())
    table.add_section()
    for score in found.baselines:
        table.add_row(score.name, *score.cells(), style="dim")
    return table
