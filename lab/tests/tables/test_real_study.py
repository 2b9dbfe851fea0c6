"""The tables of the real model's study, on files by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from ktae.errors import InputError
from ktae.inference import Interval
from ktae_lab.align import stored
from ktae_lab.align.campaign import REAL_STEPS
from ktae_lab.align.products import Alignment, Blocks, Products
from ktae_lab.tables import comparisons, page, real_study, studies

ARMS = ("offset", "trigrams")


def measured(base, own):
    """The gradient of GRPO has the cosine `base` with the true one; the credit's, which is
    perpendicular to it and as long, has `own`."""
    products = Products(bb=1.0, tt=1.0, rr=1.0, bt=0.0, br=base, tr=own)
    by_arm = {arm: [products] * 3 for arm in ARMS}
    metrics = ("raw", "adam")
    blocks = Blocks([[1.0] * 2] * 2, [[base] * 2] * 3, dict.fromkeys(ARMS, [[own] * 2] * 3))
    alignment = Alignment(
        dict.fromkeys(metrics, 0.9), dict.fromkeys(metrics, by_arm), 0.1,
        dict.fromkeys(metrics, blocks),
    )  # fmt: skip
    return stored.Measured(alignment, 8, 3, {"cpu": "x"})


def compared(treatment, baseline, outcome, kind, shown):
    return SimpleNamespace(
        treatment=treatment, baseline=baseline, outcome=outcome, kind=kind, shown=shown,
        interval=Interval(0.01, -0.02, 0.04), seeds=(1, 2), planned=2, corrected=0.0234,
    )  # fmt: skip


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(studies, "matrix_of", lambda _: SimpleNamespace(methods=["grpo", *ARMS]))
    monkeypatch.setattr(comparisons, "tasks_of", lambda _: [""])
    gain = compared("trigrams", "grpo", "validated_accuracy", "confirmatory", True)
    monkeypatch.setattr(comparisons, "comparison", lambda *_: gain)
    (tmp_path / real_study.STUDY).mkdir()
    return tmp_path


def test_differences_are_bold_where_an_announced_one_is_shown(results, monkeypatch):
    found = [
        compared("trigrams", "grpo", "validated_accuracy", "confirmatory", True),
        compared("trigrams", "grpo", "accuracy_at_1", "exploratory", True),
        compared("trigrams", "offset", "validated_accuracy", "confirmatory", False),
    ]
    monkeypatch.setattr(studies, "compared_of", lambda _: found)
    text = "+0.010 (-0.020 to +0.040)"
    assert real_study.differences().splitlines()[2:] == [
        f"| `trigrams` - `grpo` | **{text}**, p 0.023 | {text} |  |",
        f"| `trigrams` - `offset` | {text}, p 0.023 |  |  |",
    ]


def test_a_difference_of_fewer_runs_than_announced_is_no_result(results, monkeypatch):
    one = compared("trigrams", "grpo", "accuracy_at_1", "exploratory", False)
    one.seeds = (1,)
    monkeypatch.setattr(studies, "compared_of", lambda _: [one])
    with pytest.raises(InputError, match="accuracy_at_1 has 1 pairs of runs; expected 2"):
        real_study.differences()


def test_a_mean_is_over_the_runs_of_an_arm(results, monkeypatch):
    rows = [{"method": m, "seconds": s} for m, s in (("grpo", "1"), ("offset", "5"), ("grpo", "2"))]
    monkeypatch.setattr(studies, "finished", lambda _: rows)
    assert real_study.mean("grpo", "seconds") == "1.500"


def test_models_that_do_best_cold(results, monkeypatch):
    rows = [{"validated.temperature": t} for t in ("0", "0.25", "0.5")]
    monkeypatch.setattr(studies, "finished", lambda _: rows)
    assert real_study.cold() == "2 of 3"


def test_the_gain_stands_beside_the_alignment(results, monkeypatch):
    rows = [{"method": "grpo", "outcome.validated_accuracy": "0.5"}]
    monkeypatch.setattr(studies, "finished", lambda _: rows)
    (results / real_study.ALIGNMENT).mkdir()
    found = {f"smollm2-step{step}": measured(0.2, 0.3) for step in REAL_STEPS}
    stored.write(results / real_study.ALIGNMENT, found)
    head, _, *lines = real_study.predictions().splitlines()
    assert head.count("alignment after") == len(REAL_STEPS)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [name for name, *_ in cells] == [
        *(f"`{arm}` - `grpo`" for arm in ARMS), "`grpo` itself", "the reference's halves",
    ]  # fmt: skip
    assert cells[2][1] == "0.500"
    assert [cell.split()[0] for cell in cells[2][2:]] == ["0.200"] * len(REAL_STEPS)
    assert cells[3][2:] == ["0.900"] * len(REAL_STEPS)
    expected = 0.5 / np.sqrt(2) - 0.2
    for _, gain, *cosines in cells[:2]:
        assert gain == "+0.010 (-0.020 to +0.040)"
        assert {cell.split()[0] for cell in cosines} == {f"{expected:+.3f}"}


def test_held_out_pairs_have_a_column_for_each_ten_steps(results):
    rows = ["steps,estimator,groups,pairs,auc,low,high"]
    for n, steps in enumerate(("1 to 10", "11 to 20")):
        rows += [f"{steps},{name},{30 + n},9,0.6{n},0.5,0.7" for name in ("paper", "shorter")]
    (results / real_study.STUDY / "held_out.csv").write_text("\n".join(rows) + "\n")
    head, _, *lines = real_study.held_out("paper", "shorter").splitlines()
    assert "steps 1 to 10, 30 groups" in head and "steps 11 to 20, 31 groups" in head
    assert lines[0] == "| `paper` | 0.60 (0.50 to 0.70) | 0.61 (0.50 to 0.70) |"
    assert len(lines) == 2
