"""The tables of the decisive experiment, on a validated.csv by hand."""

from types import SimpleNamespace

import pytest

from ktae_lab.tables import comparisons, decisive, final_models, page

GAINS = {"trigrams": 0.1, "offset": 0.04, "random-places": 0.02, "centred": 0.06}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Three base models; an arm's accuracy is GRPO's and its gain, twice that at temperature 1."""
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    lines = ["task,method,base_model,temperature,accuracy,accuracy_at_1"]
    for task in final_models.TASKS:
        for method in decisive.ARMS:
            gain = GAINS.get(method, 0.0)
            for base, start in enumerate((0.3, 0.4, 0.5)):
                jitter = 0.01 * (base - 1) * (method != "grpo")
                values = (start + gain + jitter, start / 2 + 2 * gain)
                cold = (0, 0.25, 0.5)[base]
                lines.append(f"{task},{method},{base},{cold}," + ",".join(map(str, values)))
    folder = tmp_path / decisive.STUDY
    folder.mkdir()
    (folder / "validated.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def shown(*which):
    """What stands for the study's tests: these pairs are shown, on sums alone."""

    def comparison(study, treatment, baseline, outcome, task):
        is_shown = (treatment, baseline) in which and task == "sums"
        kind = "exploratory" if treatment == "offset" else "confirmatory"
        return SimpleNamespace(kind=kind, shown=is_shown)

    return comparison


def test_bold_is_what_the_announced_test_shows(results, monkeypatch):
    both = shown(("trigrams", "grpo"), ("offset", "grpo"))
    monkeypatch.setattr(comparisons, "comparison", both)
    head, _, first, second, *rest = decisive.table().splitlines()
    assert not any("**" in row for row in rest), "the offset was not announced"
    assert head.count("|") == 6
    cells = [cell.strip() for cell in first.split("|")[2:-1]]
    assert cells[0].startswith("**+0.100 (") and cells[0].endswith("**")
    assert cells[1].startswith("+0.200 ") and cells[2].startswith("+0.100 (")
    assert second.split("|")[2].strip().startswith("+0.060 (")


def test_numbers_in_sentences(results):
    assert decisive.mean("trigrams", "accuracy", "lists") == "0.500"
    assert decisive.difference("offset", "grpo", "accuracy_at_1", "sums").startswith("+0.080 (")
    assert decisive.cold() == "24 of 36"


def test_arms_without_the_same_base_models_are_an_error(results):
    path = results / decisive.STUDY / "validated.csv"
    path.write_text(path.read_text().replace("lists,offset,2,", "lists,offset,7,"))
    with pytest.raises(ValueError, match="offset and grpo on lists do not have the same base"):
        decisive.difference("offset", "grpo", "accuracy", "lists")


def test_the_figure_has_each_arm_and_both_temperatures(results, tmp_path):
    decisive.draw(tmp_path / "arms.svg")
    text = (tmp_path / "arms.svg").read_text()
    arms = [name for arm, name in decisive.ARMS.items() if arm != "grpo"]
    for words in (*arms, "at its own best temperature", "at temperature 1"):
        assert words in text
