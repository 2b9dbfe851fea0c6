"""Which estimator a dump is read with, and the numbers that say how far to believe it."""

import numpy as np
import pytest
import scipy.stats
from dumps import page_data, vocabulary_of
from saved_outputs import write_lines

from ktae.estimators import KTAE, preset
from ktae.report import believing, inputs
from ktae.report.frame import frame_of
from ktae.report.scoring import score, strongest
from ktae.report.units import p_of_strata
from ktae.validity.advice import advice
from ktae.validity.held_out import held_out_pairs
from ktae.validity.permutation import permutation_test


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
    table = page_data(dump).advice.tests
    expected = held_out_pairs(dump.rollouts, {name: preset(name) for name in believing.BESIDE})
    ranked = expected.ranked()
    assert [row.cells[0] for row in table.rows[: len(ranked)]] == [x.name for x in ranked]
    for row, estimate in zip(table.rows, ranked, strict=False):
        assert float(row.cells[1]) == pytest.approx(estimate.auc.value, abs=0.005)
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
    assert any(row.strong and row.cells[0] == choice.name for row in choice.advice.tests.rows)


def test_what_is_asked_for_is_taken_and_stands_beside_the_presets(dump):
    frame = frame_of(dump(random_rows(4)))

    def names(estimator):
        choice = believing.choose(frame, estimator)
        rows = choice.advice.tests.rows
        return {row.cells[0] for row in rows} - {*believing.BASELINES.values()}, choice

    shown, choice = names(KTAE(h3=0))
    assert shown == {*believing.BESIDE, choice.name} and choice.estimator == KTAE(h3=0)
    assert names(preset("trigrams"))[0] == {*believing.BESIDE}
    policy, choice = names(preset("entropy-weights"))
    assert policy <= {*believing.BESIDE} and choice.lacks_policy


def test_held_out_pairs_are_bounded(dump, monkeypatch):
    frame = frame_of(dump(random_rows(12)))

    def groups():
        return believing._held_out(frame, {"paper": preset("paper")}).groups

    monkeypatch.setattr(believing, "MAX_HELD_OUT", 5)
    assert groups() == 5
    monkeypatch.setattr(believing, "MAX_TOKENS", 3 * 6 * 9)
    assert groups() == 3


def test_mean_credit_is_one_number(dump):
    """Of groups and of steps: the same sum over the same tokens."""
    unmixed = [row | {"group": 99, "reward": 1} for row in random_rows(1)]
    unknown = [row | {"reward": None} for row in random_rows(3)[::4]]
    dump = dump(random_rows(8) + unmixed + unknown)
    of_record = permutation_test(dump.rollouts, permutations=1).real.credit_abs
    page = page_data(dump, "paper")
    of_groups = page.groups.credit_abs
    assert np.isnan(of_groups[8])  # not mixed
    assert np.mean(of_groups[:8]) == pytest.approx(of_record, rel=1e-4)  # all of 54 tokens
    (chart,) = [x for x in page.charts if x.name == "mean |credit|"]
    assert np.mean(chart.lines[0].values) == pytest.approx(of_record, rel=1e-4)
    assert chart.lines[0].values[0] == pytest.approx(np.mean(of_groups[:8:2]), rel=1e-4)


def test_p_over_groups_is_exact_where_it_matters():
    """A token in one response of each of 30 groups, one of eight correct: how often it is the
    correct one is binomial. The normal approximation is forty times too sure there."""
    for hits in (4, 9, 12):
        a = np.arange(30) < hits
        table = a.astype(int), 1 - a, 1 - a, 6 + a
        expected = scipy.stats.binomtest(hits, 30, 1 / 8).pvalue
        tolerance = 1e-6 if hits > 4 else 0.3  # the approximation
        assert p_of_strata(*table) == pytest.approx(expected, rel=tolerance)


def test_p_over_few_groups(tmp_path):
    """Two groups in which all of 5 correct and none of 5 incorrect rollouts have the token 1."""
    rows = [
        {"group": group, "token_ids": [1 if i < 5 else 2, *[3] * (1 + i)], "reward": int(i < 5)}
        for group in range(2)
        for i in range(10)
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    # All ten, or none, of two hypergeometric numbers of 1/252 each.
    frame = frame_of(dump)
    supporting, _ = strongest(frame, score(frame, "paper"))
    assert supporting[0].p_value == pytest.approx(2 / 252**2)
    assert vocabulary_of(dump)[1]["p"] == pytest.approx(2 / 252**2, 1e-5)
