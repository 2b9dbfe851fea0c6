"""A language's base model: pretrained on noisy worked solutions on first use, then kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
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

from ktae.demo import model
from ktae.demo.language import Language
from ktae.errors import InputError

VERSION = "1"
"""Of what `pretrain` does with a language and the settings that `base_model_folder` lists. Raise it
with every change of that: base models are kept by it."""

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
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Train a model from scratch on worked solutions; about a minute of one core for 1,000 steps of
    a tiny one.

    Test problems are never among them. The same seed gives the same weights on the same machine.
    `steps` are the language's own by default; `progress` is called with the steps done and the
    steps in all.
    """
    size = language.size
    steps = language.pretraining_steps if steps is None else steps
    tokenizer = model.make_tokenizer(language)
    base = model.make_model(language, seed)
    # A generator of its own: no other code draws from it, so a seed is one model.
    rng = random.Random(f"{language.salt} pretraining {seed}")
    optimizer = torch.optim.AdamW(base.parameters(), lr=size.learning_rate, betas=BETAS)

    def rate(step: int) -> float:
        """The share of the learning rate: linear warm-up, then a cosine down to 5 %."""
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        cosine = (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1))) / 2
        return FINAL_LEARNING_RATE + (1 - FINAL_LEARNING_RATE) * cosine

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    base.train()
    with model.one_thread():
        for step in range(steps):
            batch = _batch(language, rng, tokenizer, size.batch)
            n_tokens = sum(len(response) for _, response in batch)
            # Short responses, then long ones: padded to one width, half of it would be padding
            for half in (batch[: size.batch // 2], batch[size.batch // 2 :]):
                ids_bt, labels_bt = _tensors(half, tokenizer.pad_token_id)
                # The number of tokens of the whole batch makes the two halves one mean.
                base(ids_bt, labels=labels_bt, num_items_in_batch=n_tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            if progress:
                progress(step + 1, steps)
    return base.eval(), tokenizer


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
        # The prompt is given, and the padding means nothing: no loss for either.
        labels_bt[i, len(prompt) : end] = torch.tensor(response)
    return ids_bt, labels_bt


def base_model(language: Language[Any], seed: int = 0, cache: Path | None = None) -> Path:
    """The folder of the base model and its tokenizer, pretrained if it is not there yet.

    Args:
        language: what it speaks.
        seed: another seed is another base model.
        cache: the folder that base models are kept in; `$XDG_CACHE_HOME/ktae/demo` or
            `~/.cache/ktae/demo` by default.

    Raises:
        InputError: the cache folder cannot be written to.
    """
    folder = base_model_folder(language, seed, cache)
    if not folder.is_dir():
        write_base_model(language, folder, seed)
    return folder


def base_model_folder(language: Language[Any], seed: int = 0, cache: Path | None = None) -> Path:
    """Where `base_model` keeps that model, whether or not it is there yet.

    Its name has the versions and settings of language and pretraining, so that a change of them
    never meets an old model.
    """
    settings = {
        "pretraining": VERSION,
        "language": [language.name, language.version, language.salt],
        "steps": language.pretraining_steps,
        "size": dataclasses.asdict(language.size),
        "optimizer": ["AdamW", BETAS, WARM_UP, FINAL_LEARNING_RATE],
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]
    if cache is None:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        cache = caches / "ktae" / "demo"
    return cache / f"base-{language.name}-{language.size.name}-seed{seed}-{digest}"


def write_base_model(language: Language[Any], folder: Path, seed: int) -> None:
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
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True, force_jupyter=False)
    with beside as name, Progress(*columns, console=console) as bar:
        task = bar.add_task(
            f"pretraining the demo's base model of {language.name} (once)", total=None
        )
        base, tokenizer = pretrain(
            language,
            seed,
            progress=lambda done, steps: bar.update(task, completed=done, total=steps),
        )
        # Written beside its place, then renamed: nobody loads half a model.
        complete = Path(name) / folder.name
        shows_bars = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # one about shards
        try:
            base.save_pretrained(complete)
        finally:
            if shows_bars:
                logging.enable_progress_bar()
        tokenizer.save_pretrained(complete)
        try:
            # Another process may have made the same model meanwhile. Its folder stays.
            complete.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
