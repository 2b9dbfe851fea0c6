"""What is beyond chance: the one table of units, corrected over all groups."""

import numpy as np
import pytest
import scipy.stats
from saved_outputs import write_lines

from ktae.report import inputs
from ktae.report.frame import frame_of
from ktae.report.units import cells, find_units


@pytest.fixture
def units_of(tmp_path):
    def find(rows, names=("token", "bigram", "trigram")):
        frame = frame_of(inputs.load([write_lines(tmp_path / "r.jsonl", rows)]))
        return frame, find_units(frame, names)

    return find


def random_rows(seed=0, groups=5):
    rng = np.random.default_rng(seed)
    return [
        {"group": g, "token_ids": rng.integers(0, 6, rng.integers(1, 9)).tolist(), "reward": int(x)}
        for g in range(groups)
        for x in rng.integers(0, 2, 7)
    ]


def ngrams(ids, size):
    padded = [-1] * (size - 1) + ids
    return [tuple(padded[t : t + size]) for t in range(len(ids))]


def test_every_cell_is_what_one_counts_by_hand(units_of):
    rows = random_rows()
    frame, units = units_of(rows)
    tables, number_kn = cells(units)
    compared = 0
    for place, size in enumerate((1, 2, 3)):
        for row, ids in enumerate(frame.rollouts["token_ids"].to_pylist()):
            group = [
                (ngrams(x["token_ids"], size), x["reward"])
                for x in rows
                if x["group"] == int(frame.names[frame.group_b[row]])
            ]
            for t, unit in enumerate(ngrams(ids, size)):
                cell = number_kn[place][frame.offsets_b[row] + t]
                if len({reward for _, reward in group}) < 2:
                    assert cell == 0
                    continue
                sides = [[unit in x for x, reward in group if reward == side] for side in (1, 0)]
                expected = [z for side in sides for z in (sum(side), len(side))]
                assert tables[cell - 1, :5].tolist() == [place, *expected]
                compared += 1
    assert compared > 200


def test_p_is_of_distinct_responses(units_of):
    """Token 1 is in three of four correct responses and in none of three incorrect ones, each of
    them there twice."""
    ids = [[1], [1, 1], [1, 2], [2], [3], [3, 2], [2, 2]] * 2
    rows = [{"group": 0, "token_ids": x, "reward": int(i % 7 < 4)} for i, x in enumerate(ids)]
    _, units = units_of(rows, ("token",))
    row = units.tokens.key.tolist().index(0)
    assert units.tokens.table[:, row].tolist() == [6, 0, 2, 6]
    assert units.tokens.distinct[:, row].tolist() == [3, 0, 1, 3]
    expected = scipy.stats.fisher_exact([[3, 0], [1, 3]])[1]
    assert units.tokens.p[row] == pytest.approx(expected)


def test_units_that_split_responses_alike_are_one_test(units_of):
    """Two templates of ten words each: whatever the words, there are two sets of responses."""
    rows = [
        {"group": g, "response": f"{'a b c d e' if i < 4 else 'v w x y z'} {g}{i}", "reward": i % 2}
        for g in range(3)
        for i in range(8)
    ]
    _, units = units_of(rows, ("token",))
    # In each group both templates, the blank in all, and a number of its own in each response.
    assert units.tests == 3 * (2 + 1 + 8)


def split_rows(groups, n=5):
    """Groups in which `rule` stands in each of n correct and `guess` in n incorrect responses."""
    return [
        {"group": g, "response": f"{'rule' if i < n else 'guess'} {i} {g}", "reward": int(i < n)}
        for g in range(groups)
        for i in range(2 * n)
    ]


def noise():
    """The random rows as text."""
    rows = random_rows(groups=20)
    texts = [" ".join(map(str, row.pop("token_ids"))) for row in rows]
    return [
        row | {"group": f"n{row['group']}", "response": text}
        for row, text in zip(rows, texts, strict=True)
    ]


def test_beyond_chance_is_corrected_over_all_groups(units_of):
    """p of one group is 1/126; among many groups of noise that is no discovery. 2/12,870 in each of
    30 groups is."""
    _, units = units_of(split_rows(1) + noise(), ("token",))
    assert units.best_p_g.min() == pytest.approx(1 / 126) and units.beyond_g.sum() == 0
    _, units = units_of(split_rows(30, 8) + noise(), ("token",))
    assert (units.beyond_g[:30] == 2).all() and units.beyond_g[30:].sum() == 0
    tables, _ = cells(units)
    assert tables[tables[:, 6] == 1, 5].max() == pytest.approx(2 / 12870)
