"""How well credit points along advantages by continuation: what `real_tokens.py` computes.

Everything is of tokens of mixed groups. V has two halves of continuations, which are independent
given the responses; so a product of two halves is free of their noise, and one half can play an
estimator that is judged by the other. Where credit is 0 at a key token its sign counts as wrong.
The best weight is chosen on the same groups, so the share there is never below 0 and flatters.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ktae import token_credit
from ktae.rollout_advantages import rollout_advantages

Floats = NDArray[np.float64]

KEY, ERRORS = 0.25, 2.5
"""A token is a key token where the advantage is at least so large, and so many standard errors."""
WEIGHTS = np.array([0, *2.0 ** np.arange(-4, 7)])
"""Of the credit beside GRPO's advantages, for the share at the best of them."""


class Group(NamedTuple):
    """A group's responses, and flat over its N tokens what is known of each."""

    token_ids: NDArray[np.int64]
    """(G, T), 0 where masked."""
    mask: NDArray[np.bool_]
    correct: Floats
    """(G,)"""
    policy: dict[str, Floats]
    """(G, T) `log_probs` and `entropies`."""
    halves: tuple[Floats, Floats]
    """(N,) advantages by each half of the continuations."""
    keys: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    """(N,) where they are large, and beyond their standard errors."""
    kernel: Floats
    """(N, N) `logit_kernel`."""
    grpo: Floats
    """(N,) GRPO's advantages."""


def group_of(rows: Sequence[dict[str, str]]) -> Group:
    """A group from its rows of the samples, in the order of responses and positions."""
    response = np.array([int(row["response"]) for row in rows])
    position = np.array([int(row["position"]) for row in rows])
    shape = (response.max() + 1, position.max() + 1)

    def table(column: str) -> Floats:
        values = np.zeros(shape)
        values[response, position] = [float(row[column]) for row in rows]
        return values

    mask = np.zeros(shape, dtype=bool)
    mask[response, position] = True
    ids, correct = table("token_id").astype(np.int64), table("correct")[:, 0]
    counts = [(table(f"right_{half}"), table(f"n_{half}")) for half in "ab"]
    pairs = [advantage_and_error(right, n, mask, correct) for right, n in counts]
    halves, errors = ((pairs[0][i][mask], pairs[1][i][mask]) for i in (0, 1))
    sizes = [np.abs(half) for half in halves]
    keys = [(s >= KEY) & (s > ERRORS * e) for s, e in zip(sizes, errors, strict=True)]
    prefix = [(r, *ids[r, :t].tolist())[1:] for r, t in zip(response, position, strict=True)]
    node = [prefix.index(ids) for ids in prefix]
    probs = np.exp(table("log_prob"))
    kernel = logit_kernel(np.array(node), ids[mask], probs[mask], table("squares")[mask])
    everyone = np.ones(len(correct), dtype=bool)
    base = rollout_advantages("grpo", correct, everyone, np.zeros(len(correct), dtype=int))
    grpo = np.broadcast_to(base[:, None], shape)[mask]
    policy = {"log_probs": table("log_prob"), "entropies": table("entropy")}
    return Group(ids, mask, correct, policy, halves, (keys[0], keys[1]), kernel, grpo)


def advantage_and_error(
    right: Floats, n: Floats, mask: NDArray[np.bool_], correct: Floats
) -> tuple[Floats, Floats]:
    """(G, T) V(prefix and token) - V(prefix) and its standard error, 0 where masked.

    `right` and `n` are (G, T), of the prefix that ends before each token. After a response's last
    token V is its verdict, and has no error.
    """
    value = np.divide(right, n, out=np.zeros_like(right), where=mask)
    smoothed = (right + 1) / (n + 2)  # 0 of 16 is no certainty
    variance = np.divide(smoothed * (1 - smoothed), n, out=np.zeros_like(right), where=mask)
    after, variance_after = np.zeros_like(value), np.zeros_like(value)
    after[:, :-1], variance_after[:, :-1] = value[:, 1:], variance[:, 1:]
    rows, last = np.arange(len(mask)), mask.sum(axis=1) - 1
    after[rows, last] = correct
    variance_after[rows, last] = 0
    return (after - value) * mask, np.sqrt(variance + variance_after) * mask


def logit_kernel(node: NDArray[Any], ids: NDArray[Any], probs: Floats, squares: Floats) -> Floats:
    """(N, N) inner products of ∇ log π of tokens, with respect to logits of a table by prefix.

    At one prefix these are (e_a - π)·(e_b - π) = [a = b] - π(a) - π(b) + Σ π²; at two, 0.
    """
    inner = (ids[:, None] == ids) - probs[:, None] - probs + squares[:, None]
    return np.asarray((node[:, None] == node) * inner, dtype=float)


def credits(groups: Sequence[Group], estimator: Any) -> list[Floats]:
    """(N,) for each group an estimator's credit."""
    flat = []
    for group in groups:
        arrays = (group.token_ids, group.mask, group.correct, np.zeros(len(group.mask), dtype=int))
        credit = token_credit(*arrays, estimator, policy=group.policy)
        flat.append(credit[group.mask].astype(float))
    return flat


class Row(NamedTuple):
    """Flat over the tokens of all groups, what one row of the table needs."""

    pointing: tuple[Floats, Floats]
    """The values that are compared with each half of the advantages."""
    products: Floats
    """(groups, 6) of each group: base·A, base·base, base·c, c·c, c·A, A·A, in the kernel."""


def row_of(groups: Sequence[Group], credit: Sequence[Floats]) -> Row:
    """The row of an estimator's credit."""
    products = []
    for group, c in zip(groups, credit, strict=True):
        k, base, (a, b) = group.kernel, group.grpo, group.halves
        mean, by_base, by_credit = (a + b) / 2, base @ k, c @ k
        of_base = [by_base @ mean, by_base @ base, by_base @ c]
        products.append([*of_base, by_credit @ c, by_credit @ mean, a @ k @ b])
    flat = np.concatenate(credit)
    return Row((flat, flat), np.array(products))


def exact_row(groups: Sequence[Group]) -> Row:
    """The row of exact advantages as credit: each half is judged by the other, and in products the
    noise of the halves is left out."""
    base = row_of(groups, [np.zeros(len(group.grpo)) for group in groups]).products
    base_exact, exact = base[:, 0], base[:, 5]
    products = np.stack([base_exact, base[:, 1], base_exact, exact, exact, exact], axis=1)
    halves = [np.concatenate([group.halves[half] for group in groups]) for half in (1, 0)]
    return Row((halves[0], halves[1]), products)


def scores(
    groups: Sequence[Group], row: Row, exact: Row, drawn: NDArray[np.int64]
) -> dict[str, float]:
    """The measures over groups of these indices, which may repeat."""
    bounds = np.cumsum([0, *(len(group.grpo) for group in groups)])
    tokens = np.concatenate([np.arange(bounds[g], bounds[g + 1]) for g in drawn])
    measures: dict[str, list[float]] = {"rank": [], "precision": [], "sign": []}
    for half in (0, 1):
        truth = np.concatenate([groups[g].halves[half] for g in drawn])
        key = np.concatenate([groups[g].keys[half] for g in drawn])
        value = row.pointing[half][tokens]
        measures["rank"].append(spearmanr(value, truth).statistic if np.ptp(value) else 0.0)
        measures["precision"].append(average_precision(np.abs(value), key))
        measures["sign"].append(float((np.sign(value) == np.sign(truth))[key].mean()))
    sums, ceiling = row.products[drawn].sum(axis=0), exact.products[drawn].sum(axis=0)
    grpo, top = cosine(sums, 0.0), cosine(ceiling, 1.0)
    share = [(cosine(sums, weight) - grpo) / (top - grpo) for weight in WEIGHTS]
    best = int(np.argmax(share))
    means = {name: float(np.mean(values)) for name, values in measures.items()}
    return means | {
        "cosine": cosine(sums, 1.0),
        "share": share[list(WEIGHTS).index(1.0)],
        "best_share": share[best],
        "best_weight": float(WEIGHTS[best]),
    }


def cosine(sums: Floats, weight: float) -> float:
    """Cosine of the batch's gradient, GRPO's advantages and the weighted credit, with the gradient
    of exact advantages at the same tokens."""
    base_a, base_base, base_c, c_c, c_a, a_a = sums
    norm = base_base + 2 * weight * base_c + weight**2 * c_c
    return float((base_a + weight * c_a) / np.sqrt(norm * a_a))


def average_precision(score: Floats, key: NDArray[np.bool_]) -> float:
    """Mean precision at each key token, from the highest score down; tied tokens share theirs."""
    _, level = np.unique(-score, return_inverse=True)
    n, hits = np.bincount(level), np.bincount(level, weights=key)
    precision = np.cumsum(hits) / np.cumsum(n)
    return float((precision * hits).sum() / hits.sum()) if hits.any() else float("nan")


def with_intervals(
    measure: Callable[[NDArray[np.int64]], dict[str, float]], n_groups: int, resamples: int
) -> dict[str, str]:
    """Measures of all groups with 95 % percentile intervals by resampling whole groups."""
    rng = np.random.default_rng(0)
    everyone = measure(np.arange(n_groups))
    again = [measure(rng.integers(0, n_groups, n_groups)) for _ in range(resamples)]
    columns: dict[str, str] = {}
    for name, value in everyone.items():
        low, high = np.nanpercentile([each[name] for each in again], (2.5, 97.5))
        numbers = {name: value, f"{name}_low": low, f"{name}_high": high}
        columns |= {key: f"{number:.3f}" for key, number in numbers.items()}
    return columns
