"""`ktae permutation-test`: how much credit, and how many significant tokens, need no evidence."""

from __future__ import annotations

from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading
from ktae.estimators import preset
from ktae.files.text import counted, number
from ktae.tables import in_tables

LEGEND = """\
permuted      mean over permutations of the labels within each group, and
              quantiles
saturated     |credit| above 90 % of the largest that there can be in the group
pairs         (group, distinct token); p is two-sided and exact
FDR           false discovery rate over all pairs, Benjamini and Hochberg
"""
ROWS = (
    ("credit_abs", "mean |credit|", 1, ",.4f"),
    ("saturated", "saturated tokens, %", 100, ",.1f"),
    ("no_evidence", "pairs with p = 1, %", 100, ",.1f"),
    ("significant", "pairs with p < .05, %", 100, ",.2f"),
    ("discoveries", "pairs at an FDR of 5 %", 1, ",.1f"),
)
"""Each statistic with its title, its scale and the form of its numbers."""


def run(reading: Reading, permutations: int = 20, seed: int = 0) -> None:
    """Compare credit with what permuted labels give: how much of it needs no evidence?"""
    from ktae.cli.progress import working
    from ktae.validity import repeats
    from ktae.validity.permutation import permutation_test

    estimator = reading.asked() or preset("paper")  # the test is of tables
    screen, dump = Screen(reading.as_json), reading.load()
    with working("permuting labels"):
        result = permutation_test(dump.rollouts, estimator, permutations=permutations, seed=seed)
    shown = in_tables(estimator)
    if shown is None:
        note("the tables show the paper's statistic; this estimator has none of single tokens")
    elif estimator != shown:
        note("the tables count single tokens; this estimator's credit rests on more than those")
    counts = (result.groups, result.rollouts, result.tokens, result.pairs, len(result.permuted))
    names = ("mixed group", "rollout", dump.word, "pair", "permutation")
    screen.print(", ".join(map(counted, counts, names)), *repeats.in_words(result.left_out))
    rows = []
    for name, title, scale, form in ROWS:
        real, quantiles = getattr(result.real, name), result.quantiles(name)
        numbers = [number(scale * x, form) for x in (real, *quantiles)]
        # No ratio where permuted labels give nothing at all.
        rows.append((title, *numbers, f"{real / quantiles[0]:.2f}" if quantiles[0] > 0 else ""))
    columns = ("real", "permuted", "5 %", "95 %", "real / permuted")
    screen.table("Real beside permuted labels", columns, rows)
    screen.print(*LEGEND.splitlines(), style="dim")
    share = f"{100 * result.testable:.1f} % of pairs" if result.testable else "no pair"
    screen.print(
        f"At these group sizes, accuracies and frequencies {share} could have p below .05; the "
        f"smallest that there can be is {result.smallest_p:.2g}."
    )
    screen.end(result.as_dict() | {"unit": dump.unit, "notes": dump.notes.listed()})
