"""Rows that begin alike are computed once: rollouts of one prompt, prompts of one instruction."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutputWithPast

FAMILIES = ("llama", "qwen2", "qwen3")
"""Model types for which tests hold that nothing changes. A position of theirs sees those before it
through their keys and values alone."""
WORTH = 0.75
"""Positions to compute, as a share of all. With more the second pass costs what it saves."""


@contextlib.contextmanager
def shared_prefixes(model: Any) -> Iterator[None]:
    """Within the block a forward pass computes once what several rows of a batch begin with.

    Outputs at tokens, cache and gradients are those of the whole pass but for rounding. It is for
    models of `FAMILIES` on a CPU, where time goes with the number of positions. All others compute
    as they do, adapters (LoRA) among them.
    """
    if not _fits(model):
        yield
        return
    backbone = model.base_model
    backbone.forward = functools.partial(_forward, backbone, backbone.forward)
    try:
        yield
    finally:
        vars(backbone).pop("forward", None)


def _fits(model: Any) -> bool:
    config = model.config
    if getattr(config, "model_type", None) not in FAMILIES or hasattr(model, "peft_config"):
        return False
    layers = DynamicCache(config=config).layers
    return (
        model.device.type == "cpu"
        and config._attn_implementation in ("sdpa", "eager")
        and getattr(config, "is_causal", True)
        and all(type(layer) is DynamicLayer for layer in layers)  # no sliding window
        and config.rope_parameters["rope_type"] not in ("dynamic", "longrope")  # depend on length
        and "forward" not in vars(model.base_model)
    )


def _forward(
    backbone: Any,
    whole: Callable[..., Any],
    input_ids: Any = None,
    attention_mask: Any = None,
    position_ids: Any = None,
    past_key_values: Any = None,
    inputs_embeds: Any = None,
    use_cache: bool | None = None,
    **others: Any,
) -> Any:
    """The backbone's forward pass `whole`: first what rows begin with, then each row's own rest."""
    found = None
    if inputs_embeds is None and _is_plain(backbone, past_key_values, others):
        found = _prefixes(input_ids, attention_mask, position_ids)
    if found is None:
        return whole(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **others,
        )
    rows, row_of, n = found
    if position_ids is None:
        position_ids = torch.arange(input_ids.shape[1])
    position_ids = position_ids.expand_as(input_ids)
    of_prefixes = DynamicCache(config=backbone.config)
    prefixes = whole(
        input_ids=input_ids[rows, :n],
        attention_mask=attention_mask[rows, :n],
        position_ids=position_ids[rows, :n],
        past_key_values=of_prefixes,
        use_cache=True,
    )
    cache = past_key_values
    if cache is None:
        cache = DynamicCache(config=backbone.config)
    for i, layer in enumerate(of_prefixes.layers):
        cache.update(layer.keys[row_of], layer.values[row_of], i)
    rest = whole(
        input_ids=input_ids[:, n:],
        attention_mask=attention_mask,
        position_ids=position_ids[:, n:],
        past_key_values=cache,
        use_cache=True,
    )
    hidden = torch.cat([prefixes.last_hidden_state[row_of], rest.last_hidden_state], dim=1)
    if use_cache is None:
        use_cache = backbone.config.use_cache
    is_returned = use_cache or past_key_values is not None
    return BaseModelOutputWithPast(hidden, past_key_values=cache if is_returned else None)


def _is_plain(backbone: Any, cache: Any, others: dict[str, Any]) -> bool:
    """Whether a pass begins at the rows' beginnings, and gives hidden states and a cache alone."""
    config = backbone.config
    return (
        # transformers 5.0 numbers the positions as well, of which a second pass finds its own
        all(x is None or x is False or name == "cache_position" for name, x in others.items())
        and not (config.output_hidden_states or config.output_attentions)
        and (cache is None or (type(cache) is DynamicCache and cache.get_seq_length() == 0))
        # rows would share what is dropped; checkpointing computes without a cache
        and not (
            backbone.training and (config.attention_dropout or backbone.is_gradient_checkpointing)
        )
    )


class _Prefixes(NamedTuple):
    """How the B rows of a batch begin."""

    rows: torch.Tensor
    """(P,) for each different beginning, one row that has it."""
    row_of: torch.Tensor
    """(B,) each row's beginning, as a place in `rows`."""
    n: int
    """Positions in a beginning."""


def _prefixes(ids_bt: Any, mask_bt: Any, positions: Any) -> _Prefixes | None:
    """The beginnings that leave the fewest positions to compute; None where that saves too little.

    Rows begin alike as far as they have the same tokens, mask and positions.
    """
    if ids_bt is None or getattr(mask_bt, "shape", None) != ids_bt.shape:
        return None
    n_rows, width = ids_bt.shape
    parts = [ids_bt, (mask_bt != 0).to(ids_bt)]
    if positions is not None:
        parts.append(positions.expand_as(ids_bt))
    keys = torch.stack(parts, dim=2)
    different, row_of = keys.flatten(1).unique(dim=0, return_inverse=True)
    different = different.unflatten(1, keys.shape[1:])  # sorted: neighbours have most in common
    common = (different[1:] == different[:-1]).all(dim=2).long().cumprod(dim=1).sum(dim=1)
    # neighbours part at one of these; the last position is each row's own
    lengths = torch.cat([common, common.new_full((1,), width - 1)]).unique()
    n_prefixes = 1 + (common < lengths.unsqueeze(1)).sum(dim=1)
    computed = n_prefixes * lengths + n_rows * (width - lengths)
    best = computed.argmin()
    n = int(lengths[best])
    if computed[best] > WORTH * n_rows * width:
        return None
    beginning_of = torch.cat([common.new_zeros(1), (common < n).long()]).cumsum(dim=0)
    row_of = beginning_of[row_of]
    rows = torch.zeros(int(beginning_of[-1]) + 1, dtype=torch.long)
    rows[row_of] = torch.arange(n_rows)  # any row that has it
    return _Prefixes(rows, row_of, n)
