"""KTAE: the paper's estimator, its ablations, and what its authors' code computes."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from typing_extensions import override

from ktae import counting, stats
from ktae.arrays import MAX_MAGNITUDE, Array
from ktae.counting import Counts
from ktae.estimators.base import AboveZero, ContingencyEstimator, Explained, FromZero, Share
from ktae.estimators.transforms import Ignoring, Scaled


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class KTAE(ContingencyEstimator):
    """Credit σ(v) - 1/2 of the key-token value v = (h1 F + h2 IG) D. The defaults are the paper's.

    F = exp(-2 p) is the score of Fisher's exact test, IG the information gain in bits, and
    D = asin √(a/n_correct) - asin √(b/n_incorrect) + h3 (TF⁺/(TF⁻+ε) - TF⁻/(TF⁺+ε)) the direction,
    with TF⁺ and TF⁻ of correct and incorrect ones; `ktae.stats` has each formula. The credit lies
    within ±1/2.

    Source: the KTAE paper, Algorithm 1 and the equations of its section 3.
    """

    h1: FromZero = 1.0
    """Weight of the Fisher score in the strength of association."""

    h2: FromZero = 2.0
    """Weight of the information gain (bits) in the strength of association."""

    h3: FromZero = 1.0
    """Weight of the term-frequency ratio in the direction."""

    k1: AboveZero = 2.0
    """BM25's saturation of the term frequency."""

    b_len: Share = 0.5
    """BM25's length normalisation, 0 (none) to 1 (full). The paper calls it `b`."""

    eps: AboveZero = 1e-5
    """Added to the denominators of the frequency ratio, as in the released code; the paper has
    none, and so divides by zero."""

    fisher: Literal["two-sided", "point", "float32"] = "two-sided"
    """`two-sided`: the probability of all tables no more probable than this one. `point`: that of
    this one table, the equation that the paper prints. `float32`: two-sided in single precision, as
    in the released code."""

    lengths: Literal["total", "mean"] = "total"
    """L in the term frequency: all tokens of a class (the released code), or the mean length of
    its rollouts (the paper's text)."""

    normalize: bool = False
    """Divide the key-token value by h1 + h2, as the released code does."""

    @override
    def explain(self, counts: Counts) -> Explained:
        tables, place = counts.distinct_tables()
        strength = self.h1 * stats.fisher_score(self.p_values(tables))
        strength = strength + self.h2 * stats.information_gain(*tables)
        direction = stats.effect_size(*tables)[place]
        if self.h3:
            direction = direction + self.h3 * self._frequency_contrast(counts)
        weights = max(self.h1 + self.h2, 1 / MAX_MAGNITUDE)
        scale = 1.0 / weights if self.normalize else 1.0
        value = scale * strength[place] * direction
        return Explained(direction, value, stats.squashed(value))

    def _frequency_contrast(self, counts: Counts) -> Array:
        _, _, n_correct, n_incorrect = counts.table
        tokens = counts.of_group("tokens_correct"), counts.of_group("tokens_incorrect")
        relative = stats.relative_lengths(*tokens, n_correct, n_incorrect, self.lengths == "mean")
        occur_incorrect = counts.occurrences - counts.occurrences_correct
        frequency_correct, frequency_incorrect = (
            stats.saturated_term_frequency(occur / of_class, length, self.k1, self.b_len)
            for occur, of_class, length in zip(
                (counts.occurrences_correct, occur_incorrect), tokens, relative, strict=True
            )
        )
        return stats.frequency_contrast(frequency_correct, frequency_incorrect, self.eps)

    @override
    def p_values(self, table: tuple[Array, Array, Array, Array]) -> Array:
        return counting.p_values(table, self.fisher)

    @override
    def largest(self, n: Array) -> Array:
        return 0 * n + 0.5


def released(**settings: Any) -> Scaled:
    """What the authors' released code computes: h2 = 1, the value divided by h1 + h2, twice the
    credit, none for token 151643 (Qwen's `<|endoftext|>`), and Fisher's test in single precision.
    """
    defaults: dict[str, Any] = {"h2": 1.0, "normalize": True, "fisher": "float32"}
    return Scaled(Ignoring(KTAE(**(defaults | settings)), (151643,), counted=True), 2.0)
