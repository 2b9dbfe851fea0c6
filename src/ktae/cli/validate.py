"""`ktae validate`: does credit tell held-out correct rollouts from incorrect ones?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.options import (
    Correctness,
    Fields,
    Inputs,
    MaxResponse,
    PoolModels,
    Threshold,
    TokenizerName,
    check,
    load_dump,
    require_folder,
)
from ktae.cli.tables import make_table
from ktae.errors import InputError
from ktae.estimators import PRESETS, Estimator, from_section, preset

if TYPE_CHECKING:
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


def validate(
    inputs: Inputs,
    tokenizer: TokenizerName = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            help=f"{', '.join(PRESETS)}, or a recipe's section such as "
            "'{estimator: ktae, h3: 0}'. Repeatable [default: all presets].",
        ),
    ] = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModels = None,
    max_response: MaxResponse = None,
    until: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Look at this share of each rollout, such as 0.5."),
    ] = None,
    before_answer: Annotated[
        bool, typer.Option("--before-answer", help="Cut where the answer is first stated.")
    ] = False,
    pairs: Annotated[int, typer.Option(min=1, help="Held-out pairs of a group, at most.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 0,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Everything, as JSON.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="OUT", help="A plot, .png or .svg.")] = None,
) -> None:
    """Which estimator tells correct rollouts from incorrect ones that it has not seen?

    Of each group one correct and one incorrect rollout are left out; credit comes from the rest.
    How often does the correct one get more?
    """
    from rich.console import Console

    from ktae.runs import write_json
    from ktae.validity import held_out
    from ktae.validity.advice import advice

    check(tokenizer, threshold)
    if until is not None and before_answer:
        raise InputError("--until and --before-answer exclude each other; give one")
    chosen = _estimators(estimators)
    _check_outputs(json_out, plot)
    console = Console(markup=False, emoji=False, highlight=False)
    dump = load_dump(
        inputs, tokenizer, threshold=threshold, correctness=correctness, field=field,
        pool_models=pool_models, max_response=max_response,
    )  # fmt: skip
    keep, answers = _looked_at(dump, until, before_answer)
    with Console(stderr=True).status("holding out"):
        found = held_out.held_out_pairs(
            dump.rollouts, chosen, keep=keep, answers=answers, pairs=pairs, seed=seed,
            vocabulary=_vocabulary(tokenizer, chosen),
        )  # fmt: skip
    if dump.unit == "words":
        typer.echo("ktae: no --tokenizer: words are compared, not the policy's tokens", err=True)
    advised = advice(found)
    _print(console, found, until, before_answer)
    console.print("\n".join(advised.lines), soft_wrap=True)
    if json_out is not None:
        of = {"until": until, "before_answer": before_answer, "unit": dump.unit}
        write_json(json_out, found.as_dict() | of | {"advice": advised.as_dict()})
        console.print(f"wrote {json_out}", soft_wrap=True)
    if plot is not None:
        from ktae.validity.forest import write_forest

        write_forest(found, plot)
        console.print(f"wrote {plot}", soft_wrap=True)


def _estimators(given: list[str] | None) -> dict[str, Estimator]:
    """By the name under which each is shown."""
    if not given:
        return {name: preset(name) for name in PRESETS}
    from ktae.files.typed import parse_yaml

    chosen = {}
    for text in given:
        section = text if text in PRESETS else parse_yaml(text, f"--estimator {text}")
        chosen[text] = from_section(section)
    return chosen


def _check_outputs(json_out: Path | None, plot: Path | None) -> None:
    """Before anything is computed."""
    for option, path in (("--json", json_out), ("--plot", plot)):
        require_folder(option, path)
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InputError(f"--plot {plot}: expected a name that ends in .png or .svg")


def _vocabulary(tokenizer: str | None, chosen: dict[str, Estimator]) -> Vocabulary | None:
    """The tokens' texts, where an estimator is of words, lines or steps."""
    from ktae.rollouts.tokens import load_tokenizer, vocabulary

    needed = [name for name, one in chosen.items() if one.needs_vocabulary]
    if not needed:
        return None
    if tokenizer is None:
        raise InputError(f"--estimator {needed[0]} is made of words or lines; give --tokenizer")
    return vocabulary(load_tokenizer(tokenizer))


def _looked_at(
    dump: Dump, until: float | None, before_answer: bool
) -> tuple[np.ndarray | None, list[str | None]]:
    """How many tokens of each rollout, and the answers that the rollouts give."""
    from ktae.validity import prefixes

    stated = prefixes.stated_answers(dump.rollouts)
    answers = prefixes.without_blanks(stated)
    if until is not None:
        return prefixes.first_share(dump.rollouts, until), answers
    if not before_answer:
        return None, answers
    before = prefixes.before_answer(dump.rollouts, dump.token_ids, dump.texts, stated)
    if before.unanswered:
        typer.echo(
            f"ktae: {before.unanswered:,} of {len(answers):,} responses state no answer; they are "
            f"cut after {100 * before.share:.0f} %, the median of the others",
            err=True,
        )
    return before.keep, answers


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
