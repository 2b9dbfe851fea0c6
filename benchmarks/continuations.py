"""Continuations of prefixes: the value of a prefix is how often the policy goes on to be right.

The scripts `real_tokens.py` and `demo_ceiling.py` estimate advantages of tokens with them.
"""

import copy
import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Ids = tuple[int, ...]

DENSE = 0.75
"""Rows that have ended are taken out of a batch when fewer than this share of it go on."""


def prefixes_of(responses: Sequence[Sequence[int]]) -> list[Ids]:
    """The distinct proper prefixes of a group's responses, shortest first, the empty one too.

    They are the nodes of the prefix tree at which a token was chosen; the ends are no choices.
    """
    prefixes = {tuple(ids[:length]) for ids in responses for length in range(len(ids))}
    return sorted(prefixes, key=lambda ids: (len(ids), ids))


def segment_advantages(
    values: Sequence[float], verdict: float, stride: int, length: int
) -> NDArray[np.float64]:
    """(length,) for each token the difference of V after its segment and V before it.

    `values` are V of the prefixes of 0, stride, 2 stride, ... tokens; after the last token V is the
    response's own verdict. With stride 1 that is the advantage of each token.
    """
    steps = np.diff([*values, verdict])
    return np.repeat(steps, stride)[:length]


def continuations(
    model: Any,
    prefixes: Sequence[Sequence[int]],
    *,
    repeats: Sequence[int],
    limit: Sequence[int],
    ends: Collection[int],
    prompt: Any = None,
    rows: int = 256,
) -> list[list[Ids]]:
    """Sample continuations of each prefix at temperature 1, from the model's whole distribution.

    Args:
        model: a causal model of transformers, in evaluation mode; torch's random numbers are drawn.
        prefixes: token ids each. An empty one needs a `prompt`.
        repeats: how many continuations of each prefix.
        limit: the most new tokens of each prefix.
        ends: tokens that end a response.
        prompt: None, or what `read_prompt` gives of the prompt that stands before all prefixes but
            for its last token, with which each prefix begins.
        rows: as many at once. Prefixes of like lengths beside each other save padding.

    Returns:
        For each prefix, in order, its continuations, an end token included.
    """
    which = np.repeat(np.arange(len(prefixes)), repeats)
    made: list[Ids] = []
    with torch.inference_mode():
        for start in range(0, len(which), rows):
            made += _sampled(model, prefixes, which[start : start + rows], limit, ends, prompt)
    bounds = np.cumsum([0, *repeats])
    return [made[begin:end] for begin, end in itertools.pairwise(bounds)]


def read_prompt(model: Any, ids: Sequence[int]) -> Any:
    """The keys and values of a prompt, for `continuations`."""
    with torch.inference_mode():
        return model(torch.tensor([list(ids)]), use_cache=True).past_key_values


def after(model: Any, prompt: Any, ids: Sequence[int]) -> torch.Tensor:
    """(T, V) logits after each of the tokens that follow the prompt."""
    with torch.inference_mode():
        out = model(torch.tensor([list(ids)]), past_key_values=copy.deepcopy(prompt))
    logits: torch.Tensor = out.logits[0].float()
    return logits


def _sampled(
    model: Any,
    prefixes: Sequence[Sequence[int]],
    which: NDArray[Any],
    limit: Sequence[int],
    ends: Collection[int],
    prompt: Any,
) -> list[Ids]:
    """One continuation for each of `which`, of these prefixes; all of them at once."""
    distinct, inverse = np.unique(which, return_inverse=True)
    width = max(len(prefixes[i]) for i in distinct)
    ids = torch.tensor([[0] * (width - len(prefixes[i])) + [*prefixes[i]] for i in distinct])
    mask = torch.tensor([[t >= width - len(prefixes[i]) for t in range(width)] for i in distinct])
    cache = copy.deepcopy(prompt)
    if cache is not None:
        cache.batch_repeat_interleave(len(distinct))
        mask = torch.cat([mask.new_ones(len(distinct), cache.get_seq_length()), mask], dim=1)
    positions = (mask.long().cumsum(dim=1) - 1).clamp(min=0)
    out = model(
        ids,
        attention_mask=mask.long(),
        position_ids=positions[:, -width:],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    cache, of_row = out.past_key_values, torch.from_numpy(inverse)
    cache.batch_select_indices(of_row)
    mask, position, logits = mask[of_row], positions[of_row, -1:], out.logits[of_row, -1]
    left = torch.tensor([limit[i] for i in which])
    running, stops = torch.arange(len(which)), torch.tensor(sorted(ends))
    going = torch.ones(len(which), dtype=torch.bool)
    made: list[list[int]] = [[] for _ in which]
    while True:
        tokens = _drawn(logits)
        for row, token, alive in zip(
            running.tolist(), tokens.tolist(), going.tolist(), strict=True
        ):
            if alive:
                made[row].append(token)
        left = left - 1
        going &= (left > 0) & ~torch.isin(tokens, stops)
        if not going.any():
            return [tuple(ids) for ids in made]
        if going.float().mean() < DENSE:
            rows = going.nonzero()[:, 0]
            cache.batch_select_indices(rows)
            running, left, tokens, going = running[rows], left[rows], tokens[rows], going[rows]
            mask, position = mask[rows], position[rows]
        mask, position = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1), position + 1
        out = model(
            tokens[:, None],
            attention_mask=mask.long(),
            position_ids=position,
            past_key_values=cache,
            use_cache=True,
        )
        logits = out.logits[:, -1]


def _drawn(logits: torch.Tensor) -> torch.Tensor:
    """A token of each row's distribution, by one random number: faster than `multinomial`."""
    heights = logits.float().softmax(dim=-1).cumsum(dim=-1)
    marks = torch.rand(len(heights), 1) * heights[:, -1:]
    return torch.searchsorted(heights, marks, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
