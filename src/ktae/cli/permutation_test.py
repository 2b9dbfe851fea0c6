"""`ktae permutation-test`: how much credit, and how many significant tokens, need no evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli.options import (
    EstimatorName,
    JsonFile,
    Settings,
    estimator_of,
    require_outputs,
)
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import Reading, note_single_tokens, note_unit, reads_rollouts
from ktae.cli.tables import make_table
from ktae.estimators import preset
from ktae.files.text import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ktae.validity.permutation import PermutationTest

LEGEND = """\
permuted      mean over permutations of the labels within each group, and quantiles
saturated     |credit| above 90 % of the largest that there can be in the group
pairs         (group, distinct token); p is two-sided and exact
FDR           false discovery rate over all pairs, Benjamini and Hochberg
"""
BIAS_LEGEND = """\
Mean credit of a pair, by the share of the group's rollouts that hold the token. With permuted
labels it should be 0: what is there instead follows from accuracy, frequency and length, not from
evidence.
"""


@reads_rollouts
def permutation_test(
    reading: Reading,
    estimator: EstimatorName = None,
    settings: Settings = None,
    permutations: Annotated[
        int, typer.Option(min=1, metavar="N", help="Permute the labels so many times.")
    ] = 20,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Draw the permutations with this seed.")
    ] = 0,
    output: JsonFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare credit with what permuted labels give: how much of it needs no evidence?"""
    from rich.console import Console

    from ktae.validity import permutation

    asked = estimator_of(estimator, settings, reading.inputs)
    require_outputs(reading.inputs, ("--output", output))
    screen = Screen(as_json)
    dump = reading.load()
    chosen = asked or dump.estimator or preset("paper")
    with Console(stderr=True).status("permuting"):
        found = permutation.permutation_test(
            dump.rollouts, chosen, permutations=permutations, seed=seed
        )
    note_unit(dump)
    note_single_tokens(chosen)
    _print(screen.console, found, dump.unit)
    screen.end(found.as_dict() | {"unit": dump.unit}, output)


def _print(console: Console, found: PermutationTest, unit: str) -> None:
    from ktae.validity import repeats

    what = "word" if unit == "words" else "token"
    console.print(
        f"{counted(found.groups, 'mixed group')}, {counted(found.rollouts, 'rollout')}, "
        f"{counted(found.tokens, what)}, {counted(found.pairs, 'pair')}, "
        f"{counted(len(found.permuted), 'permutation')}",
        soft_wrap=True,
    )
    for line in repeats.in_words(found.left_out):
        console.print(line, soft_wrap=True)
    console.print(_beside(found))
    console.print(LEGEND, style="dim", soft_wrap=True)
    console.print(_possible(found) + "\n", soft_wrap=True)
    for table in _bias(found):
        console.print(table)
    console.print(BIAS_LEGEND, style="dim", soft_wrap=True)


def _possible(found: PermutationTest) -> str:
    """What the tests could show at best."""
    where = "At these group sizes, accuracies and frequencies"
    if not found.testable:
        return f"{where} no pair can have p below .05: the smallest is {found.smallest_p:.2g}."
    return (
        f"{where} {100 * found.testable:.1f} % of pairs could have p below .05; "
        f"the smallest that there can be is {found.smallest_p:.2g}."
    )


def _beside(found: PermutationTest) -> Table:
    table = make_table(
        "Real beside permuted labels", ("real", "permuted", "5 %", "95 %", "real / permuted")
    )
    for name, title, decimals, unit in (
        ("credit_abs", "mean |credit|", 4, ""),
        ("saturated", "saturated tokens", 1, " %"),
        ("no_evidence", "pairs with p = 1", 1, " %"),
        ("significant", "pairs with p < .05", 2, " %"),
        ("discoveries", "pairs at an FDR of 5 %", 1, ""),
    ):
        scale = 100 if unit else 1
        real = getattr(found.real, name)
        mean, low, high = found.quantiles(name)
        numbers = [f"{scale * x:,.{decimals}f}{unit}" for x in (mean, low, high)]
        digits = 0 if name == "discoveries" else decimals
        shown = f"{scale * real:,.{digits}f}{unit}"
        table.add_row(title, shown, *numbers, f"{real / mean:.2f}" if mean > 0 else "")
    return table


def _bias(found: PermutationTest) -> list[Table]:
    """Two tables: rows are accuracies of the group, columns are frequencies of the token."""
    from ktae.validity.permutation import FREQUENCIES

    titles = {"1": "in 1 rollout", "to 1/4": "to 1/4", "to 3/4": "to 3/4", "above": "more"}
    columns = [titles.get(name, f"in {name}") for name in FREQUENCIES]
    cells = {(one.accuracy, one.frequency): one for one in found.bins}
    tables = []
    for title, field in (
        ("Credit, real", "credit"),
        ("Credit, permuted labels", "credit_permuted"),
    ):
        table = make_table(title, columns, first="correct in the group")
        for accuracy in sorted({accuracy for accuracy, _ in cells}):
            ones = [cells.get((accuracy, name)) for name in FREQUENCIES]
            means = [f"{getattr(one, field):+.3f}" if one else "" for one in ones]
            table.add_row(f"{100 * accuracy[0]:.0f} to {100 * accuracy[1]:.0f} %", *means)
        tables.append(table)
    return tables
