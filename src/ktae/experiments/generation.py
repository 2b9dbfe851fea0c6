"""Batched generation with transformers: prompts in, token ids and texts out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from ktae.errors import passed_on


class Generations(NamedTuple):
    """One response a prompt, in the order of the prompts."""

    token_ids: list[list[int]]  # the generated tokens, with the end-of-sequence token where it came
    texts: list[str]  # the generated text without special tokens
    finished: list[bool]  # whether the end-of-sequence token came within `max_new_tokens`


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    temperature: float,
    batch_size: int,
    seed: int,
) -> Generations:
    """Let a causal language model answer each prompt, a text, once.

    Sampling is from the model's whole distribution: of its generation config only the
    end-of-sequence tokens are used. Temperature 0 is greedy decoding; the batch size changes the
    samples, as the seed does. The model's mode and the global random state stay as they were.
    """
    prompt_ids = encode(tokenizer, prompts)
    eos = model.generation_config.eos_token_id
    eos = tokenizer.eos_token_id if eos is None else eos
    ends = [eos] if isinstance(eos, int) else eos or []
    # Padding is masked, so any token will do.
    pad = (*ends, 0)[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    settings = GenerationConfig(
        max_new_tokens=max_new_tokens,
        eos_token_id=ends or None,
        pad_token_id=pad,
        **({"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {}),
    )
    token_ids: list[list[int]] = []
    with _undisturbed(model, settings, seed):
        for start in range(0, len(prompts), batch_size):
            batch = prompt_ids[start : start + batch_size]
            width = max(map(len, batch))
            ids_bt = torch.tensor([[pad] * (width - len(row)) + row for row in batch])
            mask_bt = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in batch])
            output_bt = model.generate(
                input_ids=ids_bt.to(model.device), attention_mask=mask_bt.to(model.device)
            )
            for ids in output_bt[:, width:].tolist():
                # What comes after a row's end is padding, or what the model would have said.
                n = next((t for t, token in enumerate(ids, start=1) if token in ends), len(ids))
                token_ids.append(ids[:n])
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in token_ids]
    return Generations(token_ids, texts, [ids[-1] in ends for ids in token_ids])


def encode(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str]) -> list[list[int]]:
    """Each prompt's token ids; special tokens are added unless it begins with bos itself. A prompt
    without a token, or that the tokenizer cannot spell, is an InputError."""
    rows: list[list[int]] = []
    for i, prompt in enumerate(prompts):
        spelt_out = tokenizer.bos_token is not None and prompt.startswith(tokenizer.bos_token)
        with passed_on(f"prompts[{i}], {prompt!r:.60}", Exception):  # tokenizers raises that
            rows.append(tokenizer(prompt, add_special_tokens=not spelt_out)["input_ids"])
            if not rows[-1]:
                raise ValueError("it has no token")
    return rows


@contextlib.contextmanager
def _undisturbed(model: PreTrainedModel, settings: GenerationConfig, seed: int) -> Iterator[None]:
    """Evaluation mode, our settings and our seed within the block; all as before after it."""
    training = [module for module in model.modules() if module.training]
    # generate() would add a model's own top-p and penalties from here
    own_settings, model.generation_config = model.generation_config, settings
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            model.eval()
            yield
    finally:
        model.generation_config = own_settings
        for module in training:
            module.training = True
