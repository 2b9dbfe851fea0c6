"""A language's base model: pretrained on noisy worked solutions on first use, then kept."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import math
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from ktae.demo import language as languages
from ktae.demo import model, sizes
from ktae.demo.language import Language
from ktae.demo.sizes import TINY, Size
from ktae.errors import InputError

Example = tuple[list[int], list[int]]
"""Token ids of a prompt and of a response."""

FINAL_LEARNING_RATE, WARM_UP = 0.05, 50
BETAS = (0.9, 0.98)
NO_LOSS = -100


def pretrain(
    language: Language[Any],
    seed: int,
    steps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    size: Size = TINY,
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Train a model from scratch on worked solutions; about a minute of one core for 1,000 steps of
    a tiny one.

    Test problems are never among them. The same seed gives the same weights on the same machine.
    `steps` are the language's own by default; `progress` is called with the steps done and the
    steps in all.
    """
    steps = language.pretraining_steps if steps is None else steps
    on_gpu = size.for_gpu and torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    tokenizer = model.make_tokenizer(language)
    base = model.make_model(language, seed, size).to(device)
    rng = random.Random(f"{language.salt} pretraining {seed}")
    optimizer = torch.optim.AdamW(base.parameters(), lr=size.learning_rate, betas=BETAS)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    base.train()
    with contextlib.nullcontext() if size.for_gpu else model.one_thread():
        for step in range(steps):
            batch = _batch(language, rng, tokenizer, size.batch)
            n_tokens = sum(len(response) for _, response in batch)
            # Short responses, then long ones: padded to one width, half of it would be padding
            for half in (batch[: size.batch // 2], batch[size.batch // 2 :]):
                ids_bt, labels_bt = (
                    part.to(device) for part in _tensors(half, tokenizer.pad_token_id)
                )
                base(ids_bt, labels=labels_bt, num_items_in_batch=n_tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            if progress:
                progress(step + 1, steps)
    return base.eval().cpu(), tokenizer


def _rate(step: int, steps: int) -> float:
    """The share of the learning rate at a step: linear warm-up, then a cosine down to 5 %."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    cosine = (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1))) / 2
    return FINAL_LEARNING_RATE + (1 - FINAL_LEARNING_RATE) * cosine


def _batch(
    language: Language[Any], rng: random.Random, tokenizer: PreTrainedTokenizerFast, n: int
) -> list[Example]:
    """`n` prompts and responses as token ids, the shortest response first."""
    problems = language.train_problems(n, rng.getrandbits(32))
    prompts = tokenizer([problem.prompt for problem in problems])["input_ids"]
    responses = tokenizer([language.worked_solution(p, rng) for p in problems])["input_ids"]
    return sorted(zip(prompts, responses, strict=True), key=lambda example: len(example[1]))


def _tensors(examples: list[Example], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, T) token ids and labels, which count in the response only.

    The padding is on the right, where no token looks at it: no attention mask is needed.
    """
    width = max(len(prompt) + len(response) for prompt, response in examples)
    ids_bt = torch.full((len(examples), width), pad)
    labels_bt = torch.full((len(examples), width), NO_LOSS)
    for i, (prompt, response) in enumerate(examples):
        end = len(prompt) + len(response)
        ids_bt[i, :end] = torch.tensor(prompt + response)
        labels_bt[i, len(prompt) : end] = torch.tensor(response)
    return ids_bt, labels_bt


def base_model(
    language: Language[Any], seed: int = 0, cache: Path | None = None, size: Size = TINY
) -> Path:
    """The folder of the base model and its tokenizer, pretrained if it is not there yet.

    Args:
        language: what it speaks.
        seed: another seed is another base model.
        cache: the folder that base models are kept in; `$XDG_CACHE_HOME/ktae/demo` or
            `~/.cache/ktae/demo` by default. A change of the recipe never meets an old model.
        size: how large it is.

    Raises:
        InputError: the cache folder cannot be written to.
    """
    folder = (cache or _default_cache()) / folder_name(language, seed, size)
    if not folder.is_dir():
        write_base_model(language, folder, seed, size)
    return folder


def folder_name(language: Language[Any], seed: int, size: Size = TINY) -> str:
    """The name of a base model's folder in the cache; sources that differ give another name."""
    return f"base-{language.name}-{size.name}-seed{seed}-{_recipe_hash(language)}"


def write_base_model(language: Language[Any], folder: Path, seed: int, size: Size = TINY) -> None:
    """Pretrain a base model into `folder`, with a progress bar on stderr.

    The folder appears complete or not at all. If another process makes it meanwhile, its model
    (the same one) stays.

    Raises:
        InputError: the folder that `folder` is in cannot be written to.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent)
    except OSError as error:
        raise InputError(
            f"cannot write the demo's base model to {folder.parent}: {error.strerror}; "
            "set XDG_CACHE_HOME to a folder that can be written to, or name another folder"
        ) from None
    with beside as name:
        complete = Path(name) / folder.name
        _save(*_pretrain_with_bar(language, seed, size), complete)
        try:
            complete.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ktae" / "demo"


@functools.cache
def _recipe_hash(language: Language[Any]) -> str:
    """Changes with the source that determines the model: language, architecture, training."""
    words = inspect.getfile(language.worked_solution)
    sources = (languages.__file__, words, model.__file__, sizes.__file__, __file__)
    content = b"".join(Path(source).read_bytes() for source in sources)
    return hashlib.sha256(content).hexdigest()[:10]


def _pretrain_with_bar(
    language: Language[Any], seed: int, size: Size
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(
            f"pretraining the demo's base model of {language.name} (once)", total=None
        )
        return pretrain(
            language,
            seed,
            progress=lambda done, steps: bar.update(task, completed=done, total=steps),
            size=size,
        )


def _save(base: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # one about shards
    try:
        base.save_pretrained(folder)
    finally:
        if bars:
            logging.enable_progress_bar()
    tokenizer.save_pretrained(folder)
