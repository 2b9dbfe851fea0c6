"""What studies compared, in pages and as rows, on small ones by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from comparing import one, use

from ktae.inference import mean_interval, sign_flip_p_value
from ktae_lab.tables import comparisons, studies
from ktae_lab.tables.comparisons import Side


@pytest.mark.parametrize(
    ("compared", "words"),
    [
        (one("a", [0.1, 0.3]), "+0.200 (+0.100 to +0.300; shown)"),
        (one("a", [-0.3, -0.1], corrected=0.2), "-0.200 (-0.300 to -0.100; not shown)"),
        (
            one("a", [-0.3, -0.1], corrected=0.2, too_few=True),
            "-0.200 (-0.300 to -0.100; not shown, too few pairs)",
        ),
        # Too few pairs are an excuse only for what the interval shows.
        (one("a", [-0.1, 0.3], too_few=True), "+0.100 (-0.100 to +0.300; not shown)"),
        (one("a", [0.1, 0.3], kind="exploratory"), "+0.200 (+0.100 to +0.300; shown, exploratory)"),
        (one("a", None), "not known"),
    ],
)
def test_a_difference_in_a_sentence(monkeypatch, compared, words):
    use(monkeypatch, small=[compared])
    assert comparisons.difference("small", "a", "grpo", "last_60", "t") == words


def test_differences_by_task_are_a_row_each(monkeypatch):
    use(monkeypatch, small=[one("good", [0.1, 0.3]), one("none", None)])
    assert comparisons.by_task("small", "grpo", "last_60").splitlines() == [
        "| minus `grpo` | task | x |",
        "| --- | --- | --- |",
        "| `good` | t | +0.200 (+0.100 to +0.300) |",
        "| `none` | t | 6 of 7 pairs |",
    ]


def test_studies_are_pooled_by_pair(monkeypatch):
    """Of the mean of six pairs that are all above 0 two in 2^6 sign patterns are as far from it."""
    first = one("new", [0, 1], outcome="length", differences=(0.1, 0.3))
    second = one("calibrated", [0, 1], outcome="length", differences=(0.2, 0.2, 0.1, 0.3))
    use(monkeypatch, first=[first], second=[second])
    table = comparisons.pooled("length", "first:new:grpo", "second:calibrated:grpo").splitlines()
    assert "| in `first` / in `second` |" in table[0]
    assert table[2].startswith("| t | 6 | +0.2 (+0.1 to +0.3) | +0.2 / +0.2 | 0.031 |")


def test_announced_comparisons_are_one_family_over_all_studies(monkeypatch):
    """Five of the studies and one over two of them: the one that cannot be tested yet counts as if
    its p were 1, the exploratory one does not."""
    differences = np.array([0.1, 0.2, 0.3, 0.2])
    both = np.concatenate([differences, differences])
    first = [
        one("best", [1, 3], p_value=0.001, differences=tuple(differences)),
        one("edge", [1, 3], p_value=0.012),
        one("untested", None),
    ]
    second = [
        one("best", [1, 3], p_value=0.02, differences=tuple(differences)),
        one("nothing", [1, 3], p_value=0.5),
        one("free", [1, 3], p_value=1e-4, kind="exploratory"),
    ]
    use(monkeypatch, first=first, second=second)
    sides = (Side("first", "best", "grpo"), Side("second", "best", "grpo"))
    monkeypatch.setattr(comparisons, "POOLED", ("last_60", sides))
    rows = {(row["study"], row["treatment"]): row for row in comparisons.every()}
    assert len(rows) == 7
    found = {key: row["holm_over_all_studies"] for key, row in rows.items()}
    pooled = rows["first+second", "best"]
    assert sign_flip_p_value(both) == 2 / 2**8
    assert found == {
        ("first", "best"): "0.006",
        ("first+second", "best"): f"{5 * 2 / 2**8:.3g}",
        ("first", "edge"): "0.048",
        ("second", "best"): "0.06",
        ("second", "nothing"): "1",
        ("first", "untested"): "1",
        ("second", "free"): "",
    }
    mean, low, high = mean_interval(both)
    assert (pooled["pairs"], pooled["mean"]) == ("8", f"{mean:+.4f}")
    assert (pooled["low"], pooled["high"]) == (f"{low:+.4f}", f"{high:+.4f}")
    assert rows["first", "untested"]["mean"] == "+2.0000" and not rows["first", "untested"]["low"]


def test_how_many_announced_comparisons_are_shown(monkeypatch):
    """By its study's correction the first and the second, over both studies the first alone."""
    first = [one("best", [1, 3], p_value=0.001), one("edge", [1, 3], p_value=0.03)]
    second = [
        one("nothing", [-1, 3], p_value=0.5, corrected=0.5),
        one("free", [1, 3], p_value=1e-4, kind="exploratory"),
    ]
    use(monkeypatch, first=first, second=second)
    monkeypatch.setattr(comparisons, "_pooled_tests", lambda *_: [])
    found = {name: comparisons.announced(name) for name in ("all", "in-study", "over-all")}
    assert found == {"all": "3", "in-study": "2", "over-all": "1"}


def test_studies_under_way_count_in_the_correction(monkeypatch):
    """One test done, p = .01; with four more that are announced, Holm's correction is 5 p."""
    use(monkeypatch, first=[one("best", [1, 3], p_value=0.01)])
    monkeypatch.setattr(comparisons, "_pooled_tests", lambda *_: [])
    begun = SimpleNamespace(confirmatory=[1, 2], matrix=SimpleNamespace(tasks={"sums": 0, "t": 0}))
    monkeypatch.setattr(studies, "under_way", lambda: [begun])
    (row,) = comparisons.every()
    assert row["holm_over_all_studies"] == "0.05"
