"""Policy gradients of weighted log-probabilities, and the geometry in which they are compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ktae.evaluation.generation import pad_left
from ktae_lab.align.rollouts import Rollouts

EPS = 1e-8
"""Adam's."""
LEAST_SHARE = 0.01
"""Of the mean √v: parameters below it have no place in Adam's metric."""


def policy_gradient(
    model: Any, rollouts: Rollouts, weight_bt: torch.Tensor, *, rows_at_once: int
) -> torch.Tensor:
    """(n_parameters,) float32: ∇ Σ_{i,t} weight(i, t) · log π(token(i, t)), on the policy at the
    temperature of the rollouts.

    `weight_bt` is (B, T); rollouts whose weights are all 0 cost nothing.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    weight_bt = torch.where(rollouts.mask_bt, weight_bt.float(), 0.0)
    rows = weight_bt.any(dim=1).nonzero().flatten().tolist()
    rows.sort(key=lambda i: int(rollouts.mask_bt[i].sum()))
    for parameter in parameters:
        parameter.grad = None
    for start in range(0, len(rows), rows_at_once):
        part = rows[start : start + rows_at_once]
        # A part is as wide as its longest response, and rows go by length: little is padding.
        logprob_bt, width = _log_probabilities(model, rollouts, part)
        (logprob_bt * weight_bt[part][:, :width].to(logprob_bt)).sum().backward()
    gradient = torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten().float() for p in parameters]
    )
    for parameter in parameters:
        parameter.grad = None
    return gradient


def _log_probabilities(model: Any, rollouts: Rollouts, rows: list[int]) -> tuple[torch.Tensor, int]:
    """(n, t) of the responses' tokens, and t, the longest of these rows' responses."""
    longest = int(rollouts.mask_bt[rows].sum(dim=1).max())
    prompts, prompt_mask = pad_left([rollouts.prompt_ids[i] for i in rows], 0)
    width = prompts.shape[1]
    ids = torch.cat([prompts, rollouts.ids_bt[rows, :longest]], dim=1)
    mask = torch.cat([prompt_mask, rollouts.mask_bt[rows, :longest].long()], dim=1)
    # Prompts are padded on the left, so a token's position counts only what is not padding.
    position = (mask.cumsum(dim=1) - 1).clamp(min=0)
    ids, mask, position = (x.to(model.device) for x in (ids, mask, position))
    # The prompt's last token and all response tokens but the last predict the response.
    logits = model(
        input_ids=ids, attention_mask=mask, position_ids=position, logits_to_keep=longest + 1
    ).logits[:, :-1]
    logprobs = torch.log_softmax(logits.float() / rollouts.temperature, dim=-1)
    return logprobs.gather(2, ids[:, width:, None]).squeeze(2), longest


class Reference(NamedTuple):
    """A large-sample gradient of the expected reward."""

    blocks: torch.Tensor
    """(K, n_parameters) of different prompts; K is even, and their sum is the gradient."""
    second_moment: torch.Tensor
    """(n_parameters,) the mean square of the gradients of single batches: Adam's v, if it stood
    still here."""

    @property
    def gradient(self) -> torch.Tensor:
        """The gradient of all blocks."""
        return self.blocks.sum(dim=0)

    @property
    def halves(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of every other block."""
        return self.blocks[0::2].sum(dim=0), self.blocks[1::2].sum(dim=0)

    def metrics(self) -> dict[str, torch.Tensor | None]:
        """What multiplies the products of two gradients: nothing, or Adam's 1 / (√v + ε), in whose
        metric Adam's step is the steepest.

        Where the reference had no gradient, or next to none (the embedding of a token that it never
        met, an expert that it never called), Adam's weight is 0. Adam would have the gradient of
        the step itself in v; this v has not, so that one batch that does meet the token would weigh
        it by up to 1 / ε, and its norm would be that token's alone, of which the reference cannot
        tell anything. A gradient like the reference's has on average √v of its squared norm at
        each parameter, so at most LEAST_SHARE of that is lost.
        """
        scale = self.second_moment.sqrt()
        is_met = scale > LEAST_SHARE * scale.mean()
        return {"raw": None, "adam": torch.where(is_met, 1.0 / (scale + EPS), 0.0)}


def product(x: torch.Tensor, y: torch.Tensor, metric: torch.Tensor | None) -> float:
    """Σ x · metric · y, in float64 where it is added up."""
    products = x * y if metric is None else x * y * metric
    return float(products.sum(dtype=torch.float64))


def cosine(x: torch.Tensor, y: torch.Tensor, metric: torch.Tensor | None) -> float:
    """The cosine of the angle between two gradients; 0 if one of them is 0."""
    norms = product(x, x, metric) * product(y, y, metric)
    return product(x, y, metric) / norms**0.5 if norms > 0 else 0.0
