"""The tables of what studies compared, on small ones by hand."""

import json

SCRIPT = "comparison_tables"


def test_a_difference_in_a_sentence(tables, study_of):
    """Too few pairs are an excuse only for what the interval shows."""
    expected = {
        "good": ([0.1, 0.3], "+0.200 (+0.100 to +0.300; shown)"),
        "bad": ([-0.3, -0.1], "-0.200 (-0.300 to -0.100; not shown)"),
        "few": ([-0.3, -0.1], "-0.200 (-0.300 to -0.100; not shown, too few pairs)"),
        "few_and_none": ([-0.1, 0.3], "+0.100 (-0.100 to +0.300; not shown)"),
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


def test_announced_comparisons_are_one_family_over_all_studies(tables, tmp_path, monkeypatch):
    """Five: one that cannot be tested yet counts, an exploratory one does not. So .02 x 3, shown in
    its own study, is not shown here."""
    studies = {
        "first": {"best": (0.001, True), "edge": (0.012, True), "untested": (None, False)},
        "second": {"third": (0.02, True), "nothing": (0.5, False), "exploratory": (1e-4, True)},
    }
    for study, methods in studies.items():
        write_study(tmp_path / study, methods)
    monkeypatch.setattr(tables, "STUDIES", tmp_path)
    head, _, *rows = tables.announced().splitlines()
    assert "| Holm over all 5 |" in head
    assert rows == [
        f"| {study} | `{name}` - `grpo` | t | length | +2.0 (+1.0 to +3.0) | 0.03 | {p} | {shown} |"
        for study, name, p, shown in (
            ("first", "best", 0.005, "yes"),
            ("first", "edge", 0.048, "yes"),
            ("second", "third", 0.06, "no"),
        )
    ]


def test_a_test_over_studies_is_in_the_family_too(tables, tmp_path, monkeypatch):
    """Eight pairs of one sign, four a study: 2 / 2^8."""
    write_study(tmp_path / "first", {"best": (0.001, True), "edge": (0.024, True)})
    write_study(tmp_path / "second", {"best": (0.02, True)})
    monkeypatch.setattr(tables, "STUDIES", tmp_path)
    head, _, *rows = tables.announced("length=first:best:grpo,second:best:grpo").splitlines()
    assert "| Holm over all 4 |" in head
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert [(row[0], *row[-2:]) for row in cells] == [
        ("first", "0.004", "yes"),
        ("first and second", "0.0234", "yes"),
        ("second", "0.04", "yes"),
        ("first", "0.04", "yes"),
    ]


def write_study(folder, methods):
    """With p-values of methods minus `grpo`, and whether each is shown."""
    comparisons = [
        {
            "treatment": name, "baseline": "grpo", "outcome": "length", "task": "t",
            "kind": "exploratory" if name == "exploratory" else "confirmatory",
            "interval": None if p is None else [1, 3], "difference": 2, "p_value": p,
            "differences": [1, 2, 3, 2], "seeds": [1], "planned": 2, "corrected": 0.03,
            "shown": shown,
        }
        for name, (p, shown) in methods.items()
    ]  # fmt: skip
    folder.mkdir()
    content = {"comparisons": comparisons, "matrix": {"outcomes": {}}}
    (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")


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
