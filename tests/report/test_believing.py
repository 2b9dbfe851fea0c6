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
    rng = np.random.default_rng(seed)
    return [
        {
            "group": group,
            "token_ids": rng.integers(0, 40, 9).tolist(),
            "reward": int(number % 3 > 0),
            "step": group % 2,
        }
        for group in range(groups)
        for number in range(6)
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
    rng = np.random.default_rng(0)
    rows = [
        {
            "group": g,
            "response": f"{'so' if i % 2 else 'hm'} {' '.join(map(str, rng.integers(0, 999, 9)))}",
            "reward": i % 2,
        }
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
        rows = choice.advice.tests
        return {row[0] for row in rows} - {*believing.BASELINES.values()}, choice

    shown, choice = names(KTAE(h3=0))
    assert shown == {*believing.BESIDE, choice.name} and choice.estimator == KTAE(h3=0)
    assert names(preset("trigrams"))[0] == {*believing.BESIDE}
