"""The README's table of base models, on two small studies by hand."""

from types import SimpleNamespace

import pytest

from ktae_lab.tables import comparisons, front_page, page, studies

MEANS = {"a": 0.1, "b": 0.2, "c": 0.3}
"""What the treatment adds on each base model."""


def runs_of(study):
    """Two seeds on each base model; the other study has the third one alone, and lists too."""
    for base, gain in MEANS.items():
        if (base == "c") != (study == "second"):
            continue
        for seed in (1, 2):
            for task in ("sums", "lists"):
                for method, value in (("grpo", 0.5), ("mine", 0.5 + gain + 0.01 * (2 * seed - 3))):
                    cell = SimpleNamespace(method=method, seed=seed, base=base, task=task)
                    yield SimpleNamespace(cell=cell, outcomes={front_page.OUTCOME: value})


def test_studies_under_way_count_in_the_family(monkeypatch):
    """Three announced tests done; two more of each of two tasks, and one of no task."""
    monkeypatch.setattr(comparisons, "announced", lambda _: "3")
    begun = [
        SimpleNamespace(confirmatory=[1, 2], matrix=SimpleNamespace(tasks={"sums": 0, "lists": 0})),
        SimpleNamespace(confirmatory=[1], matrix=None),
    ]
    monkeypatch.setattr(studies, "under_way", lambda: begun)
    assert comparisons.family() == 3 + 4 + 1


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Writes base models' accuracies at two temperatures as the study `main`."""
    monkeypatch.setattr(comparisons, "family", lambda: 1)
    monkeypatch.setattr(studies, "runs_of", runs_of)
    sides = (("first", "mine", "grpo"), ("second", "mine", "grpo"))
    monkeypatch.setattr(front_page, "HALF_RATE", (("GRPO + it", "GRPO", sides),))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    (tmp_path / "main").mkdir()

    def write(gains):
        lines = ["task,method,base_model,temperature,accuracy"]
        for task, of_base in gains.items():
            for base, gain in enumerate(of_base):
                lines += [f"{task},grpo,{base},1,0.5", f"{task},grpo,{base},0.75,{0.5 + gain}"]
        (tmp_path / "main" / "temperatures.csv").write_text("\n".join(lines))

    return write


def test_a_base_model_is_one_value_whichever_studies_have_it(small):
    """Means .1, .2, .3: Student's t with two degrees of freedom, 4.303 standard errors of .0577.

    p is .074, so the row is not bold. Nor is the last one, whatever its p: it was not announced.
    """
    small({"sums": [0.1, 0.1, 0.1001, 0.1], "lists": [0.2, 0.2, 0.2, 0.2001]})
    *_, row, last = front_page.base_models().splitlines()
    interval = "+0.200 (-0.048 to +0.448)"
    assert row == f"| GRPO + it - GRPO | 3 | {interval} | {interval} |"
    assert last.startswith("| plain GRPO at temperature .75 - at 1 | 4 | +0.100 (+0.100")


def test_bold_is_what_stays_significant_over_the_family(small, monkeypatch):
    small({"sums": [0.1, 0.2], "lists": [0.1, 0.2]})
    monkeypatch.setitem(MEANS, "a", 0.19)
    monkeypatch.setitem(MEANS, "c", 0.21)  # t = 34.6, p = .0008
    *_, row, _ = front_page.base_models().splitlines()
    assert row.count("**+0.200 (+0.175 to +0.225)**") == 2
    monkeypatch.setattr(comparisons, "family", lambda: 60)  # .05
    *_, row, _ = front_page.base_models().splitlines()
    assert row.count("**") == 4
    monkeypatch.setattr(comparisons, "family", lambda: 61)
    assert "**" not in front_page.base_models()


def test_tasks_of_other_base_models_are_no_row(small):
    small({"sums": [0.1, 0.2], "lists": [0.1, 0.2, 0.3]})
    with pytest.raises(ValueError, match=r"tasks have \[2, 3\] base models; expected one number"):
        front_page.base_models()
