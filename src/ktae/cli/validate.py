"""`ktae validate`: does credit tell held-out correct rollouts from incorrect ones?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading, with_settings
from ktae.errors import InputError
from ktae.estimators import PRESETS, Estimator, preset, resolved
from ktae.files import plots

if TYPE_CHECKING:
    import numpy as np

    from ktae.report.inputs import Dump
    from ktae.validity.advice import Advice
    from ktae.validity.scores import HeldOut

LEGEND = """\
held-out      share of pairs whose correct rollout gets more credit, mean over
              groups (chance: .50)
permuted      the same with labels permuted within groups: what chance gives
shorter       a baseline: the shorter rollout is called correct
majority      a baseline: the answer that more of the other rollouts give
"""


@options.spread
def validate(
    reading: Reading,
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            metavar="NAME",
            help=f"What is compared: {', '.join(PRESETS)}, or a recipe's section such as "
            "'{estimator: ktae, h3: 0}'. Can be given several times [default: all of these; with "
            "--set backoff].",
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="The first share of each rollout to look at, such as 0.5."),
    ] = None,
    before_answer: Annotated[
        bool, typer.Option("--before-answer", help="Look at what stands before the answer alone.")
    ] = False,
    output: options.JsonFile = None,
    plot: options.Plot = None,
    seed: Annotated[int, options.rare_number(min=0, help="Of the pairs and permutations.")] = 0,
) -> None:
    """Which estimator tells correct rollouts from incorrect ones that it has not seen?

    Of each group one correct and one incorrect rollout are left out; credit comes from the rest.
    How often does the correct one get more? `ktae permutation-test` says how much credit there is
    when labels are random.
    """
    from ktae.cli.progress import working
    from ktae.validity import held_out
    from ktae.validity.advice import advice
    from ktae.validity.prefixes import AskedAnswers
    from ktae.validity.scores import forest

    if until is not None and before_answer:
        raise InputError("--until and --before-answer exclude each other; give one")
    chosen = _chosen(reading, estimator)
    written = ("--output", output, ()), ("--plot", plot, plots.KINDS)
    options.require_outputs(reading.paths, *written)
    screen, dump = Screen(reading.as_json), reading.load()
    part, keep = _part(dump, until, before_answer)
    with working("holding out pairs"):
        result = held_out.held_out_pairs(
            dump.rollouts,
            chosen,
            keep=keep,
            answers=AskedAnswers(dump.rollouts),
            seed=seed,
            vocabulary=dump.vocabulary
            if any(x.needs_vocabulary for x in chosen.values())
            else None,
        )
    advised = advice(result)
    _print(screen, result, advised, part)
    if plot is not None:
        plots.save(forest(result), plot)
        screen.print(f"wrote {plot}")
    take = ("-e", advised.take) if advised.take else ()
    screen.next("ktae", "report", *reading.paths, *reading.flags(), *take)
    of = {"until": until, "before_answer": before_answer, "unit": dump.unit}
    told = {"advice": advised.as_dict(), "notes": dump.notes.listed()}
    screen.end(result.as_dict() | of | told, output)


def _print(screen: Screen, result: HeldOut, advised: Advice, part: str) -> None:
    from ktae.validity.scores import COLUMNS

    style = "bold green" if advised.verdict == "take" else "bold yellow"
    screen.print(f"VERDICT: {advised.lines[0]}", style=style)
    looked_at, *left_out = result.counts()
    screen.print(f"{looked_at}; {part}", *left_out)
    # The estimators, best first, and below them what does without any credit.
    sides = [[(x.name, *x.cells()) for x in side] for side in (result.ranked(), result.baselines)]
    screen.table("Held-out pairs", COLUMNS, [*sides[0], None, *sides[1]])
    screen.print(*LEGEND.splitlines(), style="dim")
    screen.print(*advised.lines[1:])


def _chosen(reading: Reading, names: list[str] | None) -> dict[str, Estimator]:
    """What is compared, by the name under which each is shown; all have the settings of `--set`."""
    if names:
        settings = reading.settings
        return {
            ", ".join([text, *(settings or ())]): resolved(with_settings(text, settings))
            for text in names
        }
    of_run = reading.asked()
    return {str(of_run): of_run} if of_run else {name: preset(name) for name in PRESETS}


def _part(dump: Dump, until: float | None, before_answer: bool) -> tuple[str, np.ndarray | None]:
    """What is looked at of each rollout, and how many tokens that is; None: all."""
    from ktae.validity import prefixes

    if until is not None:
        share = f"the first {100 * until:g} % of each rollout"
        return share, prefixes.first_share(dump.rollouts, until)
    if not before_answer:
        return "whole rollouts", None
    stated = prefixes.stated_answers(dump.rollouts)
    before = prefixes.before_answer(dump.rollouts, dump.token_ids, dump.texts, stated)
    if before.unanswered:
        note(
            f"{before.unanswered:,} of {len(stated):,} responses state no answer; they are "
            f"cut after {100 * before.share:.0f} %, the median of the others"
        )
    return "what stands before the answer", before.keep
