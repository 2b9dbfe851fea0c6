"""Which estimator a dump is read with, and the numbers that say how far to believe it."""

import numpy as np
import pytest
from dumps import page_data
from saved_outputs import write_lines

from ktae.estimators import KTAE, preset
from ktae.report import believing, inputs
from ktae.report.frame import frame_of
from ktae.validity.advice import advice
from ktae.validity.held_out import held_out_pairs


def random_rows(groups, seed=0):
    ids = np.random.default_rng(seed).integers(0, 40, (groups, 6, 9)).tolist()
    return [
        {"group": g, "token_ids": ids[g][i], "reward": int(i % 3 > 0), "step": g % 2}
        for g in range(groups)
        for i in range(6)
    ]


@pytest.fixture
def dump(tmp_path):
    return lambda rows: inputs.load([write_lines(tmp_path / "r.jsonl", rows)])


def test_held_out_pairs_are_those_of_validate(dump):
    dump = dump(random_rows(9))
    rows = page_data(dump).advice.tests
    expected = held_out_pairs(dump.rollouts, {name: preset(name) for name in believing.BESIDE})
    ranked = expected.ranked()
    assert [row[0] for row in rows[: len(ranked)]] == [x.name for x in ranked]
    for row, estimate in zip(rows, ranked, strict=False):
        assert float(row[1]) == pytest.approx(estimate.auc.value, abs=0.0005)
    assert page_data(dump).advice.verdict == advice(expected).verdict


def test_the_estimator_that_the_advice_names_is_the_one_that_is_read_with(dump):
    """Credit of a word that only correct responses have ranks held-out pairs."""
    words = np.random.default_rng(0).integers(0, 999, (30, 8, 9)).astype(str).tolist()
    rows = [
        {"group": g, "response": " ".join([("hm", "so")[i % 2], *words[g][i]]), "reward": i % 2}
        for g in range(30)
        for i in range(8)
    ]
    choice = believing.choose(frame_of(dump(rows)))
    assert choice.advice.verdict == "take"
    assert choice.estimator == preset(choice.name)
    assert choice.name in [row[0] for row in choice.advice.tests]


def test_what_is_asked_for_is_taken_and_stands_beside_the_presets(dump):
    frame = frame_of(dump(random_rows(4)))

    def names(estimator):
        choice = believing.choose(frame, estimator)
        shown = {row[0] for row in choice.advice.tests}
        return shown - {*believing.BASELINES.values()}, choice

    shown, choice = names(KTAE(h3=0))
    assert shown == {*believing.BESIDE, choice.name} and choice.estimator == KTAE(h3=0)
    assert names(preset("trigrams"))[0] == {*believing.BESIDE}
