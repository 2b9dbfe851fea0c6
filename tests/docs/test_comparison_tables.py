"""The tables of what studies compared, on small ones by hand."""

import json

import pytest

SCRIPT = "comparison_tables"


@pytest.fixture
def study_of(tables, tmp_path, monkeypatch):
    """A study whose comparisons with GRPO in accuracy have these intervals."""

    def make(**intervals):
        (tmp_path / "small").mkdir()
        comparisons = [
            {
                "treatment": name, "baseline": "grpo", "outcome": "last_60", "task": "t",
                "kind": "confirmatory", "seeds": [1, 2, 3, 4, 5, 6], "planned": 7,
                "family": 2 if name == "few" else 1, "interval": interval,
                "difference": None if interval is None else sum(interval) / 2,
                "by_base_model": [{"difference": x} for x in interval or ()],
                "p_value": 0.2 if name == "unsure" else 0.01, "corrected": 0.04,
                "shown": name == "good",
            }
            for name, interval in intervals.items()
        ]  # fmt: skip
        content = {"comparisons": comparisons, "matrix": {"outcomes": {"last_60": {"label": "x"}}}}
        (tmp_path / "small" / "results.json").write_text(json.dumps(content), encoding="utf-8")
        monkeypatch.setattr(tables, "STUDIES", tmp_path)

    return make


def test_a_difference_in_a_sentence(tables, study_of):
    """Six pairs have a p of 2 / 2^6 at least, too much among two comparisons."""
    expected = {
        "good": ([0.1, 0.3], "+0.200 (+0.100 to +0.300; shown)"),
        "bad": ([-0.3, -0.1], "-0.200 (-0.300 to -0.100; not shown)"),
        "few": ([-0.3, -0.1], "-0.200 (-0.300 to -0.100; too few pairs to show)"),
        "none": (None, "not known"),
    }
    study_of(**{name: interval for name, (interval, _) in expected.items()})
    for name, (_, words) in expected.items():
        assert tables.difference("small", name, "grpo", "last_60", "t") == words


def test_comparisons_with_a_matrix_s_own_outcome(tables, study_of):
    study_of(good=[0.1, 0.3], few=[0.1, 0.3], none=None)
    rows = tables.comparisons("small", "confirmatory").splitlines()[2:]
    numbers = "t | x | 6 | +0.200 (+0.100 to +0.300) | +0.100 / +0.300 | 0.01 | 0.04"
    assert rows == [
        f"| `good` - `grpo` | {numbers} | yes |",
        f"| `few` - `grpo` | {numbers} | no, too few pairs |",
    ]


def test_differences_by_task_are_a_row_each(tables, study_of):
    study_of(good=[0.1, 0.3], none=None)
    assert tables.by_task("small", "grpo", "last_60").splitlines() == [
        "| minus `grpo` | task | x |",
        "| --- | --- | --- |",
        "| `good` | t | +0.200 (+0.100 to +0.300) |",
        "| `none` | t | 6 of 7 pairs |",
    ]


def test_the_goal_is_judged_by_intervals(tables, study_of, monkeypatch):
    verdicts = {
        "good": ([0.1, 0.3], "yes"),
        "above": ([0.01, 0.3], "yes, not after correction"),
        "unsure": ([0.01, 0.3], "open"),
        "around": ([-0.1, 0.1], "open"),
        "below": ([-0.3, -0.1], "no"),
        "none": (None, "not known"),
    }
    study_of(**{name: interval for name, (interval, _) in verdicts.items()})
    clauses = [tables.Clause(name, name, "grpo", "last_60") for name in verdicts]
    no_effect = {"around": "not refuted", "unsure": "not refuted", "above": "an effect"}
    clauses += [tables.Clause(n, n, "grpo", "last_60", "no effect") for n in no_effect]
    margins = {
        ("no effect", "around", 0.2): "yes, none beyond 0.2",
        ("no effect", "around", 0.1): "not refuted",
        ("no effect", "above", 0.2): "an effect",
        ("no effect", "above", 0.31): "yes, none beyond 0.31",
        ("at least", "around", 0.2): "yes, not less by 0.2",
        ("at least", "around", 0.1): "open",
        ("at least", "good", 0.2): "yes, more",
        ("at least", "below", 0.2): "no",
        ("at least", "below", 0.4): "yes, not less by 0.4",
    }
    clauses += [tables.Clause(n, n, "grpo", "last_60", w, m) for w, n, m in margins]
    monkeypatch.setattr(tables, "GOALS", {"small": clauses})
    rows = tables.goal("small").splitlines()[2:]
    expected = [verdict for _, verdict in verdicts.values()]
    expected += [*no_effect.values(), *margins.values()]
    assert [row.split(": ")[-1].strip("| ") for row in rows] == [
        verdict if verdict != "not known" else "none | not known" for verdict in expected
    ]
    assert rows[0] == "| good | +0.200 (+0.100 to +0.300), p 0.01, Holm 0.04: yes |"


def test_announced_comparisons_are_one_family_over_all_studies(tables, tmp_path, monkeypatch):
    """Four of them, one not tested yet: .01 x 4, .04 / 3 x 3 and .02 x 2, but not less than the
    one before; in their own studies three were shown. What is exploratory is in no family."""
    studies = {
        "first": {"best": (0.01, True), "third": (0.02, True), "untested": (None, False)},
        "second": {"second": (0.04 / 3, True), "exploratory": (0.001, True)},
    }
    for study, methods in studies.items():
        comparisons = [
            {
                "treatment": name, "baseline": "grpo", "outcome": "length", "task": "t",
                "kind": "exploratory" if name == "exploratory" else "confirmatory",
                "interval": None if p is None else [1, 3], "difference": 2, "p_value": p,
                "seeds": [1], "planned": 2, "corrected": 0.03, "shown": shown,
            }
            for name, (p, shown) in methods.items()
        ]  # fmt: skip
        (tmp_path / study).mkdir()
        content = {"comparisons": comparisons, "matrix": {"outcomes": {}}}
        (tmp_path / study / "results.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(tables, "STUDIES", tmp_path)
    head, _, *rows = tables.announced().splitlines()
    assert "| Holm over all 4 |" in head
    assert rows == [
        f"| {study} | `{name}` - `grpo` | t | length | +2.0 (+1.0 to +3.0) | 0.03 | 0.04 | yes |"
        for study, name in (("first", "best"), ("first", "third"), ("second", "second"))
    ]


def test_studies_are_pooled_by_pair(tables, tmp_path, monkeypatch):
    """Of the mean of six pairs that are all above 0 two in 2^6 sign patterns are as far from it."""
    found = {"first": ("new", [0.1, 0.3]), "second": ("calibrated", [0.2, 0.2, 0.1, 0.3])}
    for study, (treatment, differences) in found.items():
        one = {"treatment": treatment, "baseline": "grpo", "outcome": "length", "task": "t"}
        content = {"comparisons": [one | {"differences": differences}]}
        (tmp_path / study).mkdir()
        (tmp_path / study / "results.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(tables, "STUDIES", tmp_path)
    table = tables.pooled("length", "first:new:grpo", "second:calibrated:grpo").splitlines()
    assert "| in `first` / in `second` |" in table[0]
    assert table[2].startswith("| t | 6 | +0.2 (+0.1 to +0.3) | +0.2 / +0.2 | 0.031 |")
