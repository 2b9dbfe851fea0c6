"""`ktae permutation-test`: how much credit, and how many significant tokens, need no evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ktae.cli import options
from ktae.cli.printing import Screen
from ktae.cli.reading import Reading, note_single_tokens
from ktae.estimators import preset
from ktae.files.text import counted, number

if TYPE_CHECKING:
    from ktae.validity.permutation import PermutationTest

LEGEND = """\
permuted      mean over permutations of the labels within each group, and
              quantiles
saturated     |credit| above 90 % of the largest that there can be in the group
pairs         (group, distinct token); p is two-sided and exact
FDR           false discovery rate over all pairs, Benjamini and Hochberg
"""


@options.spread
def permutation_test(
    reading: Reading,
    permutations: Annotated[int, options.number(min=1, help="Permutations of the labels.")] = 20,
    output: options.JsonFile = None,
    seed: Annotated[int, options.rare_number(min=0, help="Of the permutations.")] = 0,
) -> None:
    """Compare credit with what permuted labels give: how much of it needs no evidence?"""
    from ktae.cli.progress import working
    from ktae.validity import permutation, repeats

    asked = reading.asked()
    options.require_outputs(reading.paths, ("--output", output, ()))
    screen, dump = Screen(reading.as_json), reading.load()
    estimator = asked or preset("paper")  # the test is of tables
    with working("permuting labels"):
        result = permutation.permutation_test(
            dump.rollouts, estimator, permutations=permutations, seed=seed
        )
    note_single_tokens(estimator)
    screen.print(
        f"{counted(result.groups, 'mixed group')}, {counted(result.rollouts, 'rollout')}, "
        f"{counted(result.tokens, dump.word)}, {counted(result.pairs, 'pair')}, "
        f"{counted(len(result.permuted), 'permutation')}",
        *repeats.in_words(result.left_out),
    )
    columns = ("real", "permuted", "5 %", "95 %", "real / permuted")
    screen.table("Real beside permuted labels", columns, _rows(result))
    screen.print(*LEGEND.splitlines(), style="dim")
    share = f"{100 * result.testable:.1f} % of pairs" if result.testable else "no pair"
    screen.print(
        f"At these group sizes, accuracies and frequencies {share} could have p below .05; the "
        f"smallest that there can be is {result.smallest_p:.2g}."
    )
    screen.end(result.as_dict() | {"unit": dump.unit, "notes": dump.notes.listed()}, output)


def _rows(result: PermutationTest) -> list[tuple[str, ...]]:
    """Each statistic with the own labels and with permuted ones."""
    rows = []
    for name, title, decimals, unit in (
        ("credit_abs", "mean |credit|", 4, ""),
        ("saturated", "saturated tokens", 1, " %"),
        ("no_evidence", "pairs with p = 1", 1, " %"),
        ("significant", "pairs with p < .05", 2, " %"),
        ("discoveries", "pairs at an FDR of 5 %", 1, ""),
    ):
        scale = 100 if unit else 1  # shares are printed in percent
        real = getattr(result.real, name)
        mean, low, high = result.quantiles(name)
        # Real discoveries are a count; those under permutation are means of counts.
        digits = 0 if name == "discoveries" else decimals
        numbers = [number(scale * x, f",.{decimals}f") + unit for x in (mean, low, high)]
        # No ratio where permuted labels give nothing at all.
        ratio = f"{real / mean:.2f}" if mean > 0 else ""
        rows.append((title, number(scale * real, f",.{digits}f") + unit, *numbers, ratio))
    return rows
