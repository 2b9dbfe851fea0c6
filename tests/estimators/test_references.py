"""Each rival against plain loops, a value of each by hand, and its mean under permuted labels."""

import itertools
import math
import statistics
from collections import defaultdict

import naive_sequences
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_group import IDS, MASK, N

import ktae
from ktae import InputError
from ktae.batch import make_batch
from ktae.counting.units import NGRAMS
from ktae.estimators import (
    KTAE,
    AdvantageReweighting,
    AnchorStates,
    Backoff,
    ConflictTokens,
    EntropyWeights,
    PresenceZ,
    Salt,
    Stride,
    Tempo,
    preset,
)
from ktae.padding import pad


def contrasts(batch):
    """The rows and rewards of each group whose known rollouts with a token have several."""
    for group in np.unique(batch.group_b):
        rows = [
            i
            for i in np.flatnonzero(batch.group_b == group)
            if batch.counted()[i].any() and not math.isnan(batch.evidence[i])
        ]
        rewards = [float(batch.evidence[i]) for i in rows]
        if len(set(rewards)) > 1:
            yield rows, rewards


def standardised(values, scale_by_std=True):
    mean = statistics.mean(values)
    std = statistics.stdev(values) if len(values) > 1 else 0
    return [(x - mean) / (std + 1e-6 if scale_by_std else 1) for x in values]


def reweighting(batch, *, alpha, scale_by_std):
    credit = np.zeros(batch.mask.shape)
    for rows, rewards in contrasts(batch):
        for i, advantage in zip(rows, standardised(rewards, scale_by_std), strict=True):
            credit[i] = -alpha * (1 - np.exp(batch.log_probs[i])) * advantage
    return credit * batch.counted()


def entropy_weights(batch, *, alpha2):
    """GTPO's rewards in loops, normalised, less GRPO's advantage."""
    credit = np.zeros(batch.mask.shape)
    for rows, rewards in contrasts(batch):
        right = dict(zip(rows, rewards, strict=True))
        columns = {i: np.flatnonzero(batch.counted()[i]) for i in rows}
        entropies = {i: batch.entropies[i, columns[i]].tolist() for i in rows}
        shaped = {}
        for i, row in entropies.items():
            same = [other for k, other in entropies.items() if right[k] == right[i]]
            sign = 1 if right[i] else -1
            for place, entropy in enumerate(row):
                there = [other[place] ** sign for other in same if len(other) > place]
                shaped[i, place] = sign * (1 + alpha2 * len(there) * entropy**sign / sum(there))
        new = dict(zip(shaped, standardised(list(shaped.values())), strict=True))
        for i, advantage in zip(rows, standardised(rewards), strict=True):
            for place, column in enumerate(columns[i]):
                credit[i, column] = new[i, place] - advantage
    return credit


def windows(row, n):
    """The n-gram that ends at each token of a list, shorter at the beginning."""
    return [tuple(row[max(0, t + 1 - n) : t + 1]) for t in range(len(row))]


def stride(batch, *, unit, omega):
    n, credit = NGRAMS.index(unit) + 1, np.zeros(batch.mask.shape)
    for rows, rewards in contrasts(batch):
        right = dict(zip(rows, rewards, strict=True))
        columns = {i: np.flatnonzero(batch.counted()[i]) for i in rows}
        grams = {i: windows(batch.token_ids[i, columns[i]].tolist(), n) for i in rows}
        entropies = {i: batch.entropies[i, columns[i]].tolist() for i in rows}
        mean = statistics.mean(itertools.chain(*entropies.values()))
        for i in rows:
            values = []
            for gram, around in zip(grams[i], windows(entropies[i], n), strict=True):
                correct, wrong = (
                    statistics.mean(gram in grams[k] for k in rows if right[k] == label)
                    for label in (1, 0)
                )
                values.append((correct - wrong) * statistics.mean(around) / mean)
            for t, column in enumerate(columns[i]):
                credit[i, column] = omega * statistics.mean(values[t : t + n])
    return credit


def anchor_states(batch, *, gamma, omega, scale_by_std):
    """Set by set, as the paper's equations have it."""
    sets, done, credit = defaultdict(list), defaultdict(list), np.zeros(batch.mask.shape)
    turns = []
    for i, (ids_t, mask_t) in enumerate(zip(batch.token_ids, batch.mask, strict=True)):
        of_row, seen = [], "prompt"
        for written, run in itertools.groupby(range(len(ids_t)), key=lambda t: bool(mask_t[t])):
            columns = list(run)
            if written:
                of_row.append((i, (batch.group_b[i], seen), columns))
            elif of_row:
                seen = tuple(ids_t[columns])
        turns += [(*turn, len(of_row) - 1 - n) for n, turn in enumerate(of_row)]
    rewards = {i: r for rows, of in contrasts(batch) for i, r in zip(rows, of, strict=True)}
    for turn in turns:
        if turn[0] in rewards:
            sets[turn[1]].append(turn)
    for state, members in sets.items():
        returns = [gamma**left * rewards[i] for i, *_, left in members]
        for (i, _, columns, _), value in zip(
            members, standardised(returns, scale_by_std), strict=True
        ):
            credit[i, columns] = omega * value
            counted = [t for t in columns if batch.counted()[i, t]]
            done[state, tuple(batch.token_ids[i, counted])].append(omega * value)
    for i, state, columns, _ in turns:
        if batch.look_up_unknown and math.isnan(batch.evidence[i]):
            counted = [t for t in columns if batch.counted()[i, t]]
            equal = done.get((state, tuple(batch.token_ids[i, counted])), [0.0])
            credit[i, columns] = statistics.mean(equal)
    return credit * batch.counted()


BOTH = {"scale_by_std": True}, {"scale_by_std": False}
CASES = [
    *((Tempo, naive_sequences.tempo, settings) for settings in BOTH),
    *((ConflictTokens, naive_sequences.conflict_tokens, s | {"amplify": 1.7}) for s in BOTH),
    *((AdvantageReweighting, reweighting, settings | {"alpha": 0.3}) for settings in BOTH),
    (EntropyWeights, entropy_weights, {"alpha2": 0.7}),
    *((Stride, stride, {"unit": unit, "omega": 0.7}) for unit in NGRAMS),
    *((AnchorStates, anchor_states, s | {"gamma": 0.5, "omega": 0.7}) for s in BOTH),
    (AnchorStates, anchor_states, {"gamma": 0.0, "omega": 1.0, "scale_by_std": True}),
]


@st.composite
def batches(draw, scores):
    """Batches of few tokens: rollouts have much in common. With holes, unknown ones, groups."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, width = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    ids = rng.integers(0, draw(st.integers(1, 3)), (n, width))
    mask = rng.random((n, width)) < draw(st.sampled_from([0.6, 0.9, 1]))
    mask &= np.arange(width) < rng.integers(0, width + 1, (n, 1))
    evidence = rng.choice([*scores, math.nan], n)
    groups = rng.integers(0, draw(st.integers(1, 2)), n)
    entropies = rng.uniform(0.1, 3, (n, width))
    return make_batch(ids, mask, evidence, groups, graded=True)._replace(
        ignored=draw(st.sampled_from([(), (2,)])),
        entropies=entropies,
        log_probs=-entropies,
        look_up_unknown=draw(st.booleans()),
    )


@pytest.mark.parametrize(("kind", "reference", "settings"), CASES)
@given(data=st.data())
def test_against_plain_loops(kind, reference, settings, data):
    of_verdicts = kind in (EntropyWeights, Stride)
    batch = data.draw(batches((0.0, 1.0) if of_verdicts else (0.0, 0.1, 0.7, 1.0)))
    if kind in (EntropyWeights, Stride, AdvantageReweighting):
        batch = batch._replace(look_up_unknown=False)
    got = kind(**settings).credit(batch)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, reference(batch, **settings), rtol=0, atol=1e-5)


ROLLOUTS = [[1, 2, 3], [1, 2, 4], [1, 5], [6, 6], [1, 2]]
RIGHT = [1, 0, 0, 1, 0]


def credit(estimator, correct=RIGHT, rollouts=ROLLOUTS, **options):
    groups = np.zeros(len(rollouts), dtype=int)
    return ktae.token_credit(*pad(rollouts), correct, groups, estimator, **options)


def test_tempo_by_hand():
    """V() = 2/5, V(1) = 1/4, V(1 2) = 1/3, V(1 2 3) = 1, V(6) = 1; the last rollout ends early."""
    to_1, to_12 = 1 / 4 - 2 / 5, 1 / 3 - 1 / 4
    expected = [
        [to_1, to_12, 2 / 3],
        [to_1, to_12, -1 / 3],
        [to_1, -1 / 4, 0],
        [3 / 5, 0, 0],
        [to_1, to_12, 0],
    ]
    np.testing.assert_allclose(credit(Tempo(scale_by_std=False)), expected, atol=1e-7)
    # Of these rewards Σ (r - 2/5)² is 6/5, divided by 4.
    scaled = np.array(expected) / (math.sqrt(0.3) + 1e-6)
    np.testing.assert_allclose(credit(Tempo()), scaled, atol=1e-6)


CONFLICT = [[1, 2, 3, 9], [1, 4, 3, 9], [1, 2, 8], [5, 2, 3, 9]]


def test_conflict_tokens_by_hand():
    """Token 1 in the first place, and then 2, which rollout 1 ends with 4; from the end 9 and 3,
    which rollout 2 does not have. Token 2 of the last rollout is in conflict, but 5 before is not.
    """
    a = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    expected = np.array([[a, a, a, a], [a, 0, a, a], [a, a, 0, 0], [0, 0, a, a]])
    got = credit(ConflictTokens(), [1, 0, 0, 1], CONFLICT)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_reward_that_is_its_groups_mean_is_on_neither_side():
    """Rounding leaves .7 - mean(1, 1, .7, .1) a little below 0, which is no conflict."""
    estimator = ConflictTokens(graded_rewards=True)
    assert not credit(estimator, [1.0, 1.0, 0.7, 0.1], [[1], [1], [1], [2]]).any()


H, A = 9, 1
ROOMS = [[2, A, H + 1, 3, A, H + 2, 4, A], [2, A, H + 1, 5, A, H + 3, 4, A], [6, A, H + 3, 4, A],
         [2, A, H + 1, 3, A, H + 1, 3, A]]  # fmt: skip
"""Turns of two tokens; an observation is one token above 9."""


def in_rooms(estimator, correct, rollouts=ROOMS, **options):
    """The credit of each rollout's turns, which their tokens share."""
    ids, mask = pad(rollouts)
    mask &= ids <= H
    got = ktae.token_credit(ids, mask, correct, [0] * len(ids), estimator, **options)
    assert not got[~mask].any()
    rows = [row[inside].reshape(-1, 2) for row, inside in zip(got, mask, strict=True)]
    assert all((row[:, 0] == row[:, 1]).all() for row in rows)
    return np.concatenate(rows)[:, 0]


def test_anchor_states_by_hand():
    """States: the prompt (4 rollouts), 1 (three rollouts, one of them twice), 2 alone, 3 twice."""
    estimator = AnchorStates(gamma=0.5, scale_by_std=False, omega=2.0)
    prompt, room = (0.25 + 0.25) / 4, (0.5 + 0.5 + 1.0) / 4
    expected = [
        *(0.25 - prompt, 0.5 - room, 0.0),
        *(-prompt, -room, 0.0),
        *(-prompt, 0.0),
        *(0.25 - prompt, 0.5 - room, 1.0 - room),
    ]
    got = in_rooms(estimator, [1, 0, 0, 1])
    np.testing.assert_allclose(got, 2 * np.array(expected), atol=1e-6)
    # With the deviation: the prompt's four returns are 1/4, 0, 0, 1/4.
    scaled = in_rooms(AnchorStates(gamma=0.5), [1, 0, 0, 1])
    assert scaled[0] == pytest.approx(1 / 8 / math.sqrt(4 * (1 / 8) ** 2 / 3), rel=1e-4)


def test_salt_by_hand():
    """Three go from the prompt to room 1, and their mean is a/3; every other step is done once."""
    a = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    expected = a * np.array([-2 / 3, 0, 0, 4 / 3, 0, 0, 0, 0, -2 / 3, 0, 0])
    np.testing.assert_allclose(in_rooms(Salt(), [1, 0, 0, 1]), expected, atol=1e-6)


def test_stride_by_hand():
    """d is 1 - 1/2 of token 1, 0 of token 2 and 1/2 of token 3; the seven tokens' mean is 2."""
    policy = {"entropies": np.array([[1.0, 3, 2], [1, 2, 0], [3, 2, 0]])}
    got = credit(Stride(unit="token"), [1, 0, 0], [[1, 2, 3], [1, 2], [3, 2]], policy=policy)
    np.testing.assert_allclose(got, [[1 / 4, 0, 1 / 2], [1 / 4, 0, 0], [3 / 4, 0, 0]], atol=1e-6)


ONCE = [*ROOMS[:3], ROOMS[3][:5]]
"""No rollout comes back to a state."""
SCORES = [3.0, -1.0, 0.5, 0.5, 7.0]
LONG_ROLLOUTS = [ids[inside].tolist() for ids, inside in zip(IDS, MASK, strict=True)]


@pytest.mark.parametrize(
    ("estimator", "rollouts", "labels", "is_zero"),
    [
        *(
            (estimator, LONG_ROLLOUTS, [1.0] * n + [0.0] * (N - n), True)
            for estimator in (PresenceZ(), PresenceZ(sharp=True), preset("sharp-trigrams"))
            for n in (1, 2, 4)
        ),
        (preset("calibrated"), LONG_ROLLOUTS, [1, 1, 1, 0, 0, 0], True),
        (PresenceZ(graded_rewards=True), ROLLOUTS, SCORES, True),
        (KTAE(), LONG_ROLLOUTS, [1, 0, 0, 0, 0, 0], False),  # a rare token's depends on accuracy
        (Tempo(), ROLLOUTS, RIGHT, True),
        (Tempo(graded_rewards=True), ROLLOUTS, SCORES, True),
        (ConflictTokens(), CONFLICT, [1, 1, 0, 0], False),  # whatever is shared is pressed upwards
        (AnchorStates(gamma=1, scale_by_std=False), ROOMS, [1, 0, 0, 0], True),
        (AnchorStates(gamma=1), ONCE, [1, 0, 0, 0], True),
        (AnchorStates(gamma=1), ROOMS, [1, 0, 0, 0], False),  # one rollout is in a state twice
        (AnchorStates(), ONCE, [1, 1, 0, 0], False),  # what is near to the end is favoured
        (AdvantageReweighting(), ROLLOUTS, RIGHT, True),
        (Salt(), ROOMS, [1, 0, 0, 0], True),
        (Salt(history=0), ROOMS, [1, 1, 0, 0], True),
        (Stride(), ROLLOUTS, RIGHT, True),
        (Stride(unit="token"), ROLLOUTS, RIGHT, True),
        (Backoff(), LONG_ROLLOUTS, [1, 1, 0, 0, 0, 0], True),
    ],
    ids=str,
)
def test_mean_over_all_permuted_labels(estimator, rollouts, labels, is_zero):
    ids, _ = pad(rollouts)
    policy = {"log_probs": np.log(np.random.default_rng(0).uniform(0.1, 1, ids.shape))}
    policy["entropies"] = -policy["log_probs"]
    of = in_rooms if isinstance(estimator, AnchorStates | Salt) else credit
    all_labels = sorted(set(itertools.permutations(labels)))
    every = np.array([of(estimator, x, rollouts, policy=policy) for x in all_labels])
    mean = every.mean(axis=0, dtype=np.float64)
    assert (np.abs(mean).max() < 1e-6) == is_zero
    assert np.abs(every).max() > 0.1


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        *((preset(name), "token_ids") for name in ("tempo", "conflict-tokens", "anchor-states")),
        (AdvantageReweighting(), "token_ids"),
        (AdvantageReweighting(), "log_probs"),
        (EntropyWeights(), "entropies"),
        (Stride(), "entropies"),
    ],
    ids=str,
)
def test_a_bad_number_is_named_where_it_counts(estimator, name):
    ids, mask = pad(ROLLOUTS)
    policy = {"log_probs": np.full(ids.shape, -np.inf), "entropies": np.ones(ids.shape)}
    array, bad = (policy | {"token_ids": ids})[name], 1.5 if name == "log_probs" else -7
    array[3, 2] = bad  # masked
    ktae.token_credit(ids, mask, RIGHT, [0] * 5, estimator, policy=policy)
    array[4, 1] = bad
    with pytest.raises(InputError, match=rf"^{name}\[4, 1\]"):
        ktae.token_credit(ids, mask, RIGHT, [0] * 5, estimator, policy=policy)


def test_policy_weights_need_what_no_dump_holds_and_no_held_out_rollouts():
    with pytest.raises(InputError, match="entropies"):
        credit(EntropyWeights())
    batch = make_batch(*pad(ROLLOUTS), RIGHT, [0] * 5)._replace(look_up_unknown=True)
    with pytest.raises(InputError):
        AdvantageReweighting().credit(batch)
