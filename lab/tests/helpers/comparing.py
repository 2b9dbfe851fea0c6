"""Comparisons by hand, in the place of a study's."""

from ktae.inference import Interval
from ktae_lab.study.contrasts import Compared, OfBaseModel
from ktae_lab.study.matrix import Matrix
from ktae_lab.tables import studies

OUTCOMES = {"last_60": {"curve": "accuracy", "last": 60, "label": "x"}}
MATRIX = Matrix.model_validate(
    {"name": "small", "methods": {"grpo": {"recipe": "r.yaml"}}, "seeds": [1], "outcomes": OUTCOMES}
)


def one(treatment, interval, *, differences=(1.0, 2.0, 3.0), **others):
    """A comparison with GRPO; `interval` is its bounds, the mean of which is its mean."""
    mean = None if interval is None else sum(interval) / 2
    compared = Compared(
        "t", treatment, "grpo", "last_60", "confirmatory", "",
        planned=7,
        seeds=(1, 2, 3, 4, 5, 6),
        missing=(),
        differences=differences,
        by_base_model=tuple(OfBaseModel("", 1, x) for x in interval or ()),
        treatment_mean=None,
        baseline_mean=None,
        interval=None if interval is None else Interval(mean, *interval),
        p_value=None if interval is None else 0.01,
        corrected=None if interval is None else 0.04,
    )  # fmt: skip
    return compared._replace(**others)


def use(monkeypatch, **compared):
    """Let studies have these comparisons, and no matrix but one with an outcome of its own."""
    monkeypatch.setattr(studies, "names", lambda: list(compared))
    monkeypatch.setattr(studies, "under_way", lambda: [])
    monkeypatch.setattr(studies, "compared_of", lambda study: compared[study])
    monkeypatch.setattr(studies, "matrix_of", lambda _: MATRIX)
