"""Worlds in which the advantage of every token is known: small token MDPs with a policy.

A world is a function with one dial. Its docstring says what it is a picture of in real responses.
`exact` computes what each token is worth, `pointing` asks which estimator finds it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class World:
    """A finite token MDP of one prompt, and the policy that answers it.

    T tokens are written, one after the other, from state 0. With V tokens and S states:
    """

    policy: np.ndarray
    """(T, S, V) float64, the probability of each token; rows add up to 1."""
    next_state: np.ndarray
    """(T, S, V) int, where each token leads."""
    success: np.ndarray
    """(S,) float64, the probability that a response that ends in the state is correct."""
    finished: np.ndarray
    """(S,) bool, states in which the response has ended: what follows is padding."""
    environment: np.ndarray
    """(T,) bool, tokens that the environment writes and not the policy: masked, without credit."""
    reward: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(()))
    """(T, S, V) float64, or 0: what the environment pays for a token beside the outcome."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """T, S and V."""
        return self.policy.shape

    def choose(self, t: int, state: int, tokens: dict[int, tuple[float, int]]) -> None:
        """At place t of a state: {token: (its probability, the state it leads to)}."""
        self.policy[t, state] = 0.0
        for token, (probability, leads_to) in tokens.items():
            self.policy[t, state, token] = probability
            self.next_state[t, state, token] = leads_to


def filler(length: int, success: list[float], tokens: int, first: int = 0, seed: int = 0) -> World:
    """A world of filler alone: no token changes the state.

    Each place has its own distribution over `tokens` tokens; ids below `first` are left for
    decisions.
    """
    n_states = len(success)
    weights = np.random.default_rng(seed).dirichlet(np.full(tokens, 0.7), size=length)
    policy = np.zeros((length, n_states, first + tokens))
    policy[:, :, first:] = weights[:, None]
    stay = np.broadcast_to(np.arange(n_states)[None, :, None], policy.shape)
    return World(
        policy=policy,
        next_state=stay.copy(),
        success=np.array(success),
        finished=np.zeros(n_states, dtype=bool),
        environment=np.zeros(length, dtype=bool),
    )


CORRECT, INCORRECT = 0, 1
"""The two states of worlds in which a mistake is final."""


def spread(n: int, length: int) -> list[int]:
    """Places of n decisions, evenly over the response."""
    return [round((i + 1) * length / (n + 1)) for i in range(n)]


def few_decisions(share: float = 1 / 60) -> World:
    """A few words decide, and they stand nowhere else: "multiply" or "add" in a long solution.

    `share`: of the tokens that decide, 1/2 to 1/200; there are two.
    """
    length = round(2 / share)
    world = filler(length, [1.0, 0.0], tokens=30, first=4)
    for k, t in enumerate(spread(2, length)):
        world.choose(t, CORRECT, {2 * k: (0.6, CORRECT), 2 * k + 1: (0.4, INCORRECT)})
        world.choose(t, INCORRECT, {2 * k: (0.6, INCORRECT), 2 * k + 1: (0.4, INCORRECT)})
    return world


def shared_names(length: int = 24) -> World:
    """Digits and signs decide in one place and mean nothing in others: a minus in a chain of terms.

    Two decisions, between tokens that are filler everywhere else.

    `length`: tokens of a response.
    """
    world = filler(length, [1.0, 0.0], tokens=12)
    for t in spread(2, length):
        for state in (CORRECT, INCORRECT):
            world.choose(t, state, {0: (0.6, state), 1: (0.4, INCORRECT)})
    return world


def only_together(distance: int = 1) -> World:
    """Two choices fit each other or not, and neither is wrong alone: a name and its definition.

    `distance`: tokens from the first choice to the second.
    """
    world = filler(24, [0.5, 0.0, 1.0, 0.0], tokens=12, first=4)
    start, second, right, wrong = range(4)
    world.choose(8, start, {0: (0.5, start), 1: (0.5, second)})
    for state, ends in ((start, (right, wrong)), (second, (wrong, right))):
        world.choose(8 + distance, state, {2: (0.5, ends[0]), 3: (0.5, ends[1])})
    return world


def order_decides(distance: int = 1) -> World:
    """Two steps are right in one order alone: simplify and then substitute.

    Both tokens stand in every response, `distance` apart.

    `distance`: tokens from the first step to the second.
    """
    world = filler(24, [1.0, 0.0], tokens=12, first=2)
    world.choose(10, CORRECT, {0: (0.5, CORRECT), 1: (0.5, INCORRECT)})
    world.choose(10 + distance, CORRECT, {1: (1.0, CORRECT)})
    world.choose(10 + distance, INCORRECT, {0: (1.0, INCORRECT)})
    return world


def arithmetic(steps: int = 6) -> World:
    """A running sum, told in sentences: which digit is right depends on the digit before.

    Each step says words, repeats the digit, and writes the next one. An error is final. No digit
    has a meaning of its own.

    `steps`: of a response.
    """
    digits, words, p_right = 10, 4, 0.85
    success = [1.0] * digits + [0.0] * digits
    world = filler(steps * (words + 2), success, tokens=12, first=digits)
    addends = np.random.default_rng(1).integers(1, digits, steps)
    for step in range(steps):
        t = step * (words + 2) + words
        for state in range(2 * digits):
            digit, is_wrong = state % digits, state >= digits
            right = (digit + addends[step]) % digits
            choices = {}
            for after in range(digits):
                p = p_right if after == right else (1 - p_right) / (digits - 1)
                choices[after] = p, after + digits * (is_wrong or after != right)
            world.choose(t, state, {digit: (1.0, state)})
            world.choose(t + 1, state, choices)
    return world


def early_method(gap: float = 0.5) -> World:
    """The first word chooses a method, and much later the weaker method fails more often.

    `gap`: between the methods' probabilities of success.
    """
    start, strong, weak, failed = range(4)
    world = filler(40, [0.0, 1.0, 1.0, 0.0], tokens=12, first=4)
    world.choose(0, start, {0: (0.5, strong), 1: (0.5, weak)})
    for state, p in ((strong, 0.5 + gap / 2), (weak, 0.5 - gap / 2)):
        world.choose(25, state, {2: (p, state), 3: (1 - p, failed)})
    return world


def repaired(repair: float = 0.5) -> World:
    """A mistake can be noticed and taken back: "wait", and the response is right again.

    `repair`: probability that a response notices its mistake.
    """
    world = filler(32, [1.0, 0.0], tokens=12, first=4)
    for t in (6, 18):
        world.choose(t, CORRECT, {0: (0.6, CORRECT), 1: (0.4, INCORRECT)})
        world.choose(t + 6, INCORRECT, {2: (repair, CORRECT), 3: (1 - repair, INCORRECT)})
    return world


def symptoms(after: int = 6) -> World:
    """After a mistake the text sounds unsure, and changes nothing any more: symptom, not cause.

    `after`: how many tokens the mistake is followed by that stand in wrong responses alone.
    """
    world = filler(32, [1.0, 0.0], tokens=12, first=6)
    world.choose(8, CORRECT, {0: (0.5, CORRECT), 1: (0.5, INCORRECT)})
    for t in range(10, 10 + after):
        world.choose(t, INCORRECT, dict.fromkeys((2, 3, 4, 5), (0.25, INCORRECT)))
    return world


def shared_beginnings(length: int = 24) -> World:
    """Sampled at low temperature: responses copy each other and part in a few places, one decides.

    `length`: tokens before the responses part for good.
    """
    total, n_tokens = length + 12, 12
    world = filler(total, [1.0, 0.0], tokens=n_tokens)
    text = np.random.default_rng(2).integers(0, n_tokens, length)
    for t in range(length):
        other, text_t = int((text[t] + 1) % n_tokens), int(text[t])
        for state in (CORRECT, INCORRECT):
            world.choose(t, state, {text_t: (1.0, state)})
            if t in (length // 3, 2 * length // 3):
                decides = t == length // 3
                incorrect = INCORRECT if decides else state
                world.choose(t, state, {text_t: (0.5, state), other: (0.5, incorrect)})
    return world


def many_choices(choices: int = 8) -> World:
    """One of many next steps is right, and each wrong one is rare: which lemma to use.

    `choices`: what there is to choose from.
    """
    world = filler(32, [1.0, 0.0], tokens=16, first=choices)
    incorrect = dict.fromkeys(range(1, choices), (0.5 / (choices - 1), INCORRECT))
    world.choose(12, CORRECT, {0: (0.5, CORRECT), **incorrect})
    return world


def rare_success(rate: float = 1 / 16) -> World:
    """A hard problem: four decisions, and one response of sixteen gets all of them right.

    `rate`: of correct responses.
    """
    return _four_decisions(rate)


def rare_failure(rate: float = 1 / 16) -> World:
    """An easy problem: four decisions, and one response of sixteen gets one of them wrong.

    `rate`: of incorrect responses.
    """
    return _four_decisions(1 - rate)


def _four_decisions(rate: float) -> World:
    world = filler(40, [1.0, 0.0], tokens=16, first=8)
    p = rate**0.25
    for k, t in enumerate(spread(4, 40)):
        for state in (CORRECT, INCORRECT):
            world.choose(t, state, {2 * k: (p, state), 2 * k + 1: (1 - p, INCORRECT)})
    return world


def longer_when_wrong(factor: int = 3) -> World:
    """Wrong responses ramble, correct ones end: length goes with the reward and causes nothing.

    `factor`: length of an incorrect response beside a correct one.
    """
    short = 16
    correct, wrong, ended_correct, ended_wrong = range(4)
    world = filler(short * factor, [1.0, 0.0, 1.0, 0.0], tokens=12, first=3)
    world.finished[[ended_correct, ended_wrong]] = True
    world.choose(6, correct, {0: (0.5, correct), 1: (0.5, wrong)})
    world.choose(short - 1, correct, {2: (1.0, ended_correct)})
    world.choose(short * factor - 1, wrong, {2: (1.0, ended_wrong)})
    return world


def rooms(turns: int = 4) -> World:
    """An agent in several turns: it sees a room, thinks, names the room and acts.

    Which act is right depends on the room; acts have the same names everywhere. The environment
    writes what the agent sees, with mask 0.

    `turns`: of an episode.
    """
    n_rooms, n_acts, thoughts = 3, 2, 5
    lost, first = n_rooms, n_acts + 2 * (n_rooms + 1)
    per_turn = thoughts + 3
    world = filler(per_turn * turns, [1.0] * n_rooms + [0.0], tokens=12, first=first)
    seen, named = n_acts, n_acts + n_rooms + 1
    for t in range(0, per_turn * turns, per_turn):
        world.environment[t] = True
        for room in range(n_rooms + 1):
            right = room % n_acts
            to = [lost if room == lost else (room + 1 + act) % n_rooms for act in range(n_acts)]
            world.choose(t, room, {seen + room: (1.0, room)})
            world.choose(t + 1 + thoughts, room, {named + room: (1.0, room)})
            acts = {right: (0.8, to[right]), 1 - right: (0.2, lost)}
            world.choose(t + 2 + thoughts, room, acts)
    return world


def look_ups(stop: float = 0.3) -> World:
    """An agent looks something up, turn by turn, and each look-up that helps is paid a quarter.

    The answer is right more often where the last look-up helped. The agent chooses itself when to
    answer, and with that how many rewards there will be.

    `stop`: probability of answering after each of at most four turns.
    """
    lacking, knowing, ended_lacking, ended_knowing = range(4)
    n_turns, thoughts, seen = 4, 3, 4
    per_turn = thoughts + 3
    world = filler(per_turn * n_turns, [0.3, 0.6] * 2, tokens=12, first=seen + 2)
    world.finished[[ended_lacking, ended_knowing]] = True
    reward = np.zeros(world.shape)
    for t in range(0, per_turn * n_turns, per_turn):
        world.environment[t] = True
        act = t + 1 + thoughts
        for state, ended in ((lacking, ended_lacking), (knowing, ended_knowing)):
            world.choose(t, state, {seen + state: (1.0, state)})
            world.choose(act, state, {0: (0.6, knowing), 1: (0.4, lacking)})
            world.choose(act + 1, state, {2: (stop, ended), 3: (1 - stop, state)})
            reward[act, state, 0] = 0.25
    return dataclasses.replace(world, reward=reward)


WORLDS: dict[str, Callable[..., World]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        few_decisions,
        shared_names,
        only_together,
        order_decides,
        arithmetic,
        early_method,
        repaired,
        symptoms,
        shared_beginnings,
        many_choices,
        rare_success,
        rare_failure,
        longer_when_wrong,
        rooms,
        look_ups,
    )
}
"""The worlds by name, each with one dial."""
