"""Rows that begin alike are computed once: rollouts of one prompt, prompts of one instruction.

Which attention this needs, and what else, `_fits` says; another model computes as it always does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

WORTH = 0.75
"""Positions to compute, as a share of all. With more the second pass costs what it saves."""


@contextlib.contextmanager
def shared_prefixes(model: PreTrainedModel) -> Iterator[None]:
    """Within the block a forward pass computes once what several rows of a batch begin with.

    Outputs, cache and gradients are those of the whole pass but for rounding. It is for models on a
    CPU, where time goes with the number of positions; elsewhere nothing changes.
    """
    if not _fits(model):
        yield
        return
    backbone = model.base_model
    backbone.forward = functools.partial(_forward, backbone, backbone.forward)
    try:
        yield
    finally:
        del backbone.forward


def _fits(model: Any) -> bool:
    """Whether it is a language model on a CPU whose positions see those before them through keys
    and values alone, the same ones however many positions follow."""
    if not isinstance(model, PreTrainedModel) or model.device.type != "cpu":
        return False
    backbone, config = model.base_model, model.config
    if backbone is model or "forward" in vars(backbone):
        return False
    layers = DynamicCache(config=config.get_text_config()).layers
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config is config.get_text_config()  # no images, whose positions are counted otherwise
        and not config.is_encoder_decoder
        and not model._is_stateful
        and "past_key_values" in inspect.signature(backbone.forward).parameters
        and len(layers) > 0
        and all(type(layer) is DynamicLayer for layer in layers)  # no window, no other state
        and config._attn_implementation in ("sdpa", "eager")
        and rope.get("rope_type") not in ("dynamic", "longrope")  # which the length changes
        and not model.is_gradient_checkpointing  # which computes without a cache
        # rows that share a prefix would share what is dropped in it
        and not any(value for name, value in vars(config).items() if "drop" in name)
    )


def _forward(
    backbone: PreTrainedModel,
    whole: Callable[..., Any],
    input_ids: Any = None,
    attention_mask: Any = None,
    position_ids: Any = None,
    past_key_values: Any = None,
    use_cache: bool | None = None,
    **others: Any,
) -> Any:
    """The backbone's forward pass `whole`: first what rows begin with, then each row's own rest."""
    plain = not any(value is not None and value is not False for value in others.values())
    fresh = past_key_values is None or (
        type(past_key_values) is DynamicCache and past_key_values.get_seq_length() == 0
    )
    found = _prefixes(input_ids, attention_mask, position_ids) if plain and fresh else None
    if found is None:
        return whole(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            **others,
        )
    rows, row_of, n = found
    if position_ids is not None:
        position_ids = position_ids.expand_as(input_ids)
    config = backbone.config
    of_prefixes = DynamicCache(config=config)
    prefixes = whole(
        input_ids=input_ids[rows, :n],
        attention_mask=attention_mask[rows, :n],
        position_ids=None if position_ids is None else position_ids[rows, :n],
        past_key_values=of_prefixes,
        use_cache=True,
    )
    cache = DynamicCache(config=config) if past_key_values is None else past_key_values
    for i, layer in enumerate(of_prefixes.layers):
        cache.update(layer.keys[row_of], layer.values[row_of], i)
    output = whole(
        input_ids=input_ids[:, n:],
        attention_mask=attention_mask,
        position_ids=None if position_ids is None else position_ids[:, n:],
        past_key_values=cache,
        use_cache=True,
    )
    hidden = (prefixes.last_hidden_state[row_of], output.last_hidden_state)
    output.last_hidden_state = torch.cat(hidden, dim=1)
    output.past_key_values = cache if use_cache else None
    return output


class _Prefixes(NamedTuple):
    """How the B rows of a batch begin."""

    rows: torch.Tensor
    """(P,) for each different beginning, one row that has it."""
    row_of: torch.Tensor
    """(B,) each row's beginning, as a place in `rows`."""
    n: int
    """Positions in a beginning."""


def _prefixes(
    ids_bt: torch.Tensor | None, mask_bt: torch.Tensor | None, positions: torch.Tensor | None
) -> _Prefixes | None:
    """The beginnings that leave the fewest positions to compute; None where that saves too little.

    Rows begin alike as far as they have the same tokens, mask and positions.
    """
    if ids_bt is None or mask_bt is None or mask_bt.shape != ids_bt.shape:
        return None
    n_rows, width = ids_bt.shape
    parts = [ids_bt, mask_bt] + ([] if positions is None else [positions.expand_as(ids_bt)])
    keys = torch.stack(parts, dim=2)
    different, row_of = keys.flatten(1).unique(dim=0, return_inverse=True)
    different = different.unflatten(1, keys.shape[1:])  # sorted: neighbours have most in common
    common = (different[1:] == different[:-1]).all(dim=2).long().cumprod(dim=1).sum(dim=1)
    # neighbours part at one of these; the last position is each row's own
    lengths = torch.cat([common, common.new_full((1,), width - 1)]).clamp(max=width - 1).unique()
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
