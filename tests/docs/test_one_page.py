"""Every number of the worked example in docs/one-page.md.

The rollouts are read from the page. What can be a fraction is computed here as one, everything else
by ktae, and both have to be what the page says, digit by digit.
"""

import contextlib
import functools
import io
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pages
import pytest

from ktae import CreditTable, KTAEConfig, credit_table, statistics, token_advantages

TEXT = pages.page("one-page")
EXAMPLE = "## One group by hand"
CONFIG = KTAEConfig.paper()


class Group:
    """The rollouts of the page's table, with exact counts and with ktae's numbers."""

    def __init__(self, text: str) -> None:
        head, *rows = pages.tables(text)[0]
        assert head == ["rollout", "tokens", "reward"]
        assert [row[0] for row in rows] == [str(i + 1) for i in range(len(rows))]
        self.words = [row[1].split() for row in rows]
        self.rewards = np.array([float(row[2]) for row in rows])
        self.vocabulary = sorted({word for words in self.words for word in words})
        lengths = np.array([len(words) for words in self.words])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.zeros(mask.shape, dtype=int)
        ids[mask] = [self.vocabulary.index(word) for words in self.words for word in words]
        groups = np.zeros(len(ids), dtype=int)
        self.table: CreditTable = credit_table(ids, mask, self.rewards > 0, groups)
        self.advantages = token_advantages(self.rewards, ids, mask, groups)
        self.classes = [
            [words for words, reward in zip(self.words, self.rewards, strict=True) if reward == r]
            for r in (1, 0)
        ]
        self.n_true, self.n_false = map(len, self.classes)
        self.length = [sum(map(len, words)) for words in self.classes]

    def ktae(self, column: str, token: str) -> float:
        return float(getattr(self.table, column)[self.vocabulary.index(token)])

    def contain(self, token: str) -> tuple[int, int]:
        """a and b."""
        a, b = (sum(token in words for words in of_class) for of_class in self.classes)
        return a, b

    def ways(self, token: str) -> dict[int, int]:
        """For each a that the margins allow, in how many draws of the rollouts it comes about."""
        k = sum(self.contain(token))
        found = {a: self._ways(a, k - a) for a in range(self.n_true + 1)}
        return {a: ways for a, ways in found.items() if ways}

    def _ways(self, a: int, b: int) -> int:
        return math.comb(self.n_true, a) * math.comb(self.n_false, b) if b >= 0 else 0

    def p(self, token: str) -> Fraction:
        ways = self.ways(token)
        ours = ways[self.contain(token)[0]]
        return Fraction(sum(x for x in ways.values() if x <= ours), sum(ways.values()))

    def tf(self, token: str) -> list[Fraction]:
        """Of the correct and of the incorrect class."""
        return [
            Fraction(sum(words.count(token) for words in of_class), length)
            for of_class, length in zip(self.classes, self.length, strict=True)
        ]

    def saturated(self, token: str) -> list[Fraction]:
        """TF of both classes."""
        k1, b_len = Fraction(CONFIG.k1), Fraction(CONFIG.b_len)
        mean = Fraction(sum(self.length), 2)
        return [
            (k1 + 1) * tf / (k1 * (1 - b_len + b_len * length / mean) + tf)
            for tf, length in zip(self.tf(token), self.length, strict=True)
        ]

    def from_shares(self, token: str) -> float:
        return statistics.effect_size(*self.contain(token), self.n_true, self.n_false)

    def from_frequencies(self, token: str) -> float:
        return statistics.frequency_contrast(*map(float, self.saturated(token)), CONFIG.eps)


@functools.lru_cache(maxsize=1)
def group_of(text: str) -> Group:
    return Group(text)


def check_settings(text: str) -> None:
    names, values = next(table for table in pages.tables(text) if table[0][0] == "h1")
    for name, value in zip(names, values, strict=True):
        assert float(value) == getattr(CONFIG, "eps" if name == "ε" else name), name


def check_constants(text: str) -> None:
    group = group_of(text)
    rows = pages.tables(text)[1][1:]
    advantage = group.rewards - group.rewards.mean()
    advantage /= group.rewards.std(ddof=1)
    expected = {
        "n_true, n_false": [group.n_true, group.n_false],
        "L_true, L_false": group.length,
        "L_avg": [Fraction(sum(group.length), 2)],
        "H(n_true, n_false)": [bits(group.n_true, group.n_false)],
        "A_rollout of correct, incorrect rollouts": [advantage[0], advantage[-1]],
    }
    assert [row[0] for row in rows] == list(expected)
    for name, cell in rows:
        for shown, value in zip(cell.split(", "), expected[name], strict=True):
            assert_shown(shown, value, name)


def check_ways(text: str) -> None:
    possible, ways = pages.tables(text)[2]
    expected = group_of(text).ways("4")
    assert possible == ["a", *map(str, expected)]
    assert ways == ["ways", *map(str, expected.values())]


def check_every_step(text: str) -> None:
    """The token `4`: the page's lines are these, with these numbers put in."""
    group = group_of(text)
    a, b = group.contain("4")
    n_true, n_false = group.n_true, group.n_false
    n, k = n_true + n_false, a + b
    ways = group.ways("4")
    alike = [x for x in ways.values() if x <= ways[a]]
    n_ways = sum(ways.values())
    p, fisher = group.p("4"), group.ktae("fisher_score", "4")
    gain, direction = group.ktae("information_gain", "4"), group.ktae("direction", "4")
    value, term = group.ktae("value", "4"), group.ktae("term", "4")
    shares, frequencies = group.from_shares("4"), group.from_frequencies("4")
    tf = [f"{tf * length}/{length}" for tf, length in zip(group.tf("4"), group.length, strict=True)]
    full = group.saturated("4")
    base = float(group.advantages[0, 0]) - term
    mean = float(Fraction(sum(group.length), 2))
    saturations = [f"(2 · (1 - 0.5 + 0.5 · {length}/{mean}) + " for length in group.length]
    lines = [
        f"p        = ({alike[0]} + {alike[1]}) / {n_ways} = {p}",
        f"F        = exp(-2 · {p}) = {fisher:.4f}",
        f"H({a}, {b})  = - {a}/{k} · log2 {a}/{k} - {b}/{k} · log2 {b}/{k} = {bits(a, b):.4f}",
        f"IG       = {bits(n_true, n_false):g} - {k}/{n} · {bits(a, b):.4f}"
        f" - {n - k}/{n} · {bits(n_true - a, n_false - b):g} = {gain:.4f}",
        f"TF_true  = 3 · {tf[0]} / {saturations[0]}{tf[0]}) = {full[0]}",
        f"TF_false = 3 · {tf[1]} / {saturations[1]}{tf[1]}) = {full[1]}",
        f"D        = asin √({a}/{n_true}) - asin √({b}/{n_false})",
        f"           + {full[0]} / ({full[1]} + ε) - {full[1]} / ({full[0]} + ε)",
        f"         = {shares:.4f} - {-frequencies:.4f} = {direction:.4f}",
        f"v        = (1 · {fisher:.4f} + 2 · {gain:.4f}) · {direction:.4f} = {value:.4f}",
        f"term     = σ({value:.4f}) - 0.5 = {term:.4f}",
        f"A        = {base:.4f} - {-term:.4f} = {base + term:.4f} in rollout 1",
    ]
    assert pages.blocks(text, "text")[0].splitlines() == lines


def check_four_tokens(text: str) -> None:
    group = group_of(text)
    head, *rows = pages.tables(text)[3]
    assert len(head) == 5
    assert [row[0] for row in rows] == list(ROWS)
    for label, *cells in rows:
        for token, cell in zip(head[1:], cells, strict=True):
            values = ROWS[label](group, token)
            for shown, value in zip(cell.split(", "), values, strict=True):
                assert_shown(shown, value, f"{label} of {token}")


def exact_row(fractions: Any, *columns: str) -> Any:
    """A row whose numbers are exact: as fractions, and ktae's are the same."""

    def row(group: Group, token: str) -> list[Fraction]:
        values = fractions(group, token)
        for value, column in zip(values, columns, strict=bool(columns)):
            assert group.ktae(column, token) == pytest.approx(float(value), rel=1e-14), column
        return [Fraction(value) for value in values]

    return row


def saturated_row(of_class: int) -> Any:
    def row(group: Group, token: str) -> list[Fraction]:
        length = 2 * group.length[of_class] / sum(group.length)
        tf = float(group.tf(token)[of_class])
        exact = group.saturated(token)[of_class]
        ours = statistics.saturated_term_frequency(tf, length, CONFIG.k1, CONFIG.b_len)
        assert ours == pytest.approx(float(exact), rel=1e-14)
        return [exact]

    return row


def others(group: Group, token: str) -> tuple[int, int]:
    a, b = group.contain(token)
    return group.n_true - a, group.n_false - b


ROWS = {
    "a, b": exact_row(Group.contain, "a", "b"),
    "c, d": exact_row(others, "c", "d"),
    "p": exact_row(lambda group, token: [group.p(token)], "p_value"),
    "F": lambda group, token: [group.ktae("fisher_score", token)],
    "IG": lambda group, token: [group.ktae("information_gain", token)],
    "tf_true": exact_row(lambda group, token: group.tf(token)[:1], "tf_true"),
    "tf_false": exact_row(lambda group, token: group.tf(token)[1:], "tf_false"),
    "TF_true": saturated_row(0),
    "TF_false": saturated_row(1),
    "D, from shares": lambda group, token: [group.from_shares(token)],
    "D, from frequencies": lambda group, token: [group.from_frequencies(token)],
    "D": lambda group, token: [group.ktae("direction", token)],
    "v": lambda group, token: [group.ktae("value", token)],
    "term": lambda group, token: [group.ktae("term", token)],
}


def check_token_advantages(text: str) -> None:
    group = group_of(text)
    for table in pages.tables(text)[4:6]:
        row = int(table[0][0].removeprefix("rollout ")) - 1
        assert table[0][1:] == group.words[row]
        assert [cells[0] for cells in table[1:]] == ["GRPO", "GRPO+KTAE"]
        plain = (group.rewards[row] - group.rewards.mean()) / group.rewards.std(ddof=1)
        for t, (grpo, ktae) in enumerate(zip(table[1][1:], table[2][1:], strict=True)):
            assert_shown(grpo, plain, f"GRPO's advantage of rollout {row + 1}")
            assert_shown(ktae, group.advantages[row, t], f"rollout {row + 1}, position {t}")


def check_python(text: str) -> None:
    printed = io.StringIO()
    namespace: dict[str, Any] = {}
    with contextlib.redirect_stdout(printed):
        exec(pages.blocks(text, "python")[0], namespace)
    assert printed.getvalue() == pages.blocks(text, "text")[-1]
    group = group_of(text)
    assert namespace["words"] == group.words
    assert namespace["rewards"].tolist() == group.rewards.tolist()


def check_prose(text: str) -> None:
    group = group_of(text)
    assert group.contain("4") == (1, 3)
    for sentence in (
        "One correct and three incorrect rollouts contain it.",
        "If four of the six rollouts are drawn at random, a = 1, 2 or 3 of\nthem are correct",
        "Ours is a = 1. As improbable as that, or more, are a = 1 and a = 3.",
        f"as three against three can say, and p is still {group.p('8')}.",
        f"(p = {group.p('wait')}, F = {group.ktae('fisher_score', 'wait'):g})",
    ):
        assert sentence in text


def bits(x: int, y: int) -> float:
    return sum(-z / (x + y) * math.log2(z / (x + y)) for z in (x, y) if z)


def assert_shown(shown: str, value: float | Fraction, what: str) -> None:
    """A fraction or an integer is exact; a number with decimals is the value rounded to them."""
    if isinstance(value, Fraction):
        assert Fraction(shown) == value, what
    decimals = len(shown.partition(".")[2])
    if decimals:
        assert shown == f"{float(value):.{decimals}f}", what
    else:
        assert float(Fraction(shown)) == pytest.approx(float(value), abs=1e-4), what


CHECKS = [
    check_constants,
    check_ways,
    check_every_step,
    check_four_tokens,
    check_token_advantages,
    check_prose,
    check_python,
]


def test_settings_are_the_defaults() -> None:
    check_settings(TEXT)


@pytest.mark.parametrize("check", CHECKS)
def test_the_page_is_right(check: Any) -> None:
    check(pages.section(TEXT, EXAMPLE))


def test_changing_any_number_is_noticed() -> None:
    """Every digit of the example's tables and blocks, replaced by the next one."""
    text = pages.section(TEXT, EXAMPLE)
    checked = r"^\|[^\n]*\|$|^```text\n.*?^```$"
    spans = [found.span() for found in re.finditer(checked, text, re.DOTALL | re.MULTILINE)]
    places = [i for start, stop in spans for i in range(start, stop) if text[i].isdigit()]
    assert len(places) > 400
    for i in places:
        changed = text[:i] + str((int(text[i]) + 1) % 10) + text[i + 1 :]
        assert not passes(changed), f"...{text[i - 40 : i]} [{text[i]}] {text[i + 1 : i + 10]}..."


def passes(text: str) -> bool:
    try:
        for check in CHECKS:
            check(text)
    except Exception:  # an unreadable page is noticed too
        return False
    return True
