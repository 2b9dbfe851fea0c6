"""What a measurement keeps: the inner products of which every cosine can be made."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

BASE = "grpo"
"""The name of the rollout advantage alone, which every estimator is compared with."""


@dataclasses.dataclass(frozen=True)
class Products:
    """The inner products from which the cosine of every mixture follows, in one metric.

    Of one batch and estimator: b is the gradient of the rollout advantages, t that of the
    estimator's token credit, r the reference.
    """

    bb: float
    bt: float
    tt: float
    br: float
    tr: float
    rr: float

    def cosine(self, base_weight: float, credit_weight: float) -> float:
        """The cosine of base_weight · b + credit_weight · t with r; 0 where either is 0."""
        x, y = base_weight, credit_weight
        norm = x * x * self.bb + 2 * x * y * self.bt + y * y * self.tt
        if norm <= 0 or self.rr <= 0:
            return 0.0
        return float((x * self.br + y * self.tr) / (norm * self.rr) ** 0.5)

    def equal_norm(self) -> float:
        """The credit's weight that makes its gradient as long as the rollout advantage's."""
        return float((self.bb / self.tt) ** 0.5) if self.tt > 0 else 0.0


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Products with the K parts of the reference, which sum up to r, in one metric.

    With them the reference can be made again without one of its parts. N is the number of batches.
    """

    rr: list[list[float]]
    """(K, K) of the parts with one another."""
    br: list[list[float]]
    """(N, K) of the rollout advantages' gradients."""
    tr: dict[str, list[list[float]]]
    """(N, K) by estimator, of its credit's gradients."""

    def without_each(self, estimator: str, products: Sequence[Products]) -> list[list[Products]]:
        """(K, N) what an estimator's products would be without one part of the reference."""
        found = []
        for block, cross in enumerate(self.rr):
            rr = products[0].rr - 2 * sum(cross) + cross[block]
            own = zip(products, self.br, self.tr[estimator], strict=True)
            found.append([
                dataclasses.replace(p, br=p.br - br[block], tr=p.tr - tr[block], rr=rr)
                for p, br, tr in own
            ])  # fmt: skip
        return found


@dataclasses.dataclass(frozen=True)
class Alignment:
    """What was measured."""

    reliability: dict[str, float]
    """The cosine of the reference's two halves, by metric."""
    products: dict[str, dict[str, list[Products]]]
    """By metric and estimator, one entry a batch."""
    accuracy: float
    """Of all sampled rollouts whose correctness is known."""
    blocks: dict[str, Blocks] = dataclasses.field(default_factory=dict)
    """By metric; empty in what was measured before they were kept."""
