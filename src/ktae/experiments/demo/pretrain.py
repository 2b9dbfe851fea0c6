"""The demo's base model: pretrained on noisy worked solutions on first use, then kept."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from ktae.experiments.demo import model, sums
from ktae.experiments.recipe import Recipe
from ktae.files.atomic import atomic_folder, make_folder
from ktae.files.hub import local_or_hub

VERSION = "1"
"""Raise it whenever `pretrain` changes in a way that the settings in `base_model_folder` do not
show: cached base models are named after it."""

STEPS = 1000
"""Steps of pretraining after which the model solves some problems, but not most."""
FINAL_LEARNING_RATE, WARM_UP = 0.05, 50
BETAS = (0.9, 0.98)
NO_LOSS = -100


def pretrain(seed: int, steps: int = STEPS) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Train a model from scratch on worked solutions of training problems, with a progress bar on
    stderr; about a minute of one core. The same seed gives the same weights on the same machine.
    """
    tokenizer, base = model.make_tokenizer(), model.make_model(seed)
    rng = random.Random(f"{sums.SALT} pretraining {seed}")
    optimizer = torch.optim.AdamW(base.parameters(), lr=model.SIZE["learning_rate"], betas=BETAS)

    def rate(step: int) -> float:
        """The factor of the learning rate: linear warm-up, then a cosine down to 5 %."""
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        cosine = (1 + math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1))) / 2
        return FINAL_LEARNING_RATE + (1 - FINAL_LEARNING_RATE) * cosine

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    console = Console(stderr=True, force_jupyter=False)
    base.train()
    # At this size threads cost more than they save.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in track(range(steps), "pretraining the demo's base model (once)", console=console):
            problems = sums.train_problems(model.SIZE["batch"], rng.getrandbits(32))
            prompts = tokenizer([problem.prompt for problem in problems])["input_ids"]
            answers = tokenizer([sums.worked_solution(p, rng) for p in problems])["input_ids"]
            batch = sorted(zip(prompts, answers, strict=True), key=lambda pair: len(pair[1]))
            n_tokens = sum(len(response) for _, response in batch)
            # Short responses, then long ones: less padding
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                ids = [torch.tensor(prompt + response) for prompt, response in half]
                labels = [torch.tensor([NO_LOSS] * len(x) + response) for x, response in half]
                # Padding on the right needs no attention mask.
                ids_bt = pad_sequence(ids, True, tokenizer.pad_token_id)
                labels_bt = pad_sequence(labels, True, NO_LOSS)
                base(ids_bt, labels=labels_bt, num_items_in_batch=n_tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
    finally:
        torch.set_num_threads(threads)
    return base.eval(), tokenizer


def base_model() -> Path:
    """The folder of the base model and its tokenizer, pretrained if it is not there yet."""
    folder = base_model_folder()
    if not folder.is_dir():
        where = f"{folder.parent} for the demo's base model (set XDG_CACHE_HOME to another folder)"
        make_folder(folder.parent, where)
        with atomic_folder(folder) as temporary:
            for part in pretrain(seed=0):
                part.save_pretrained(temporary)
    return folder


def policy_path(recipe: Recipe, *, make: bool = True) -> str:
    """The folder or hub name of a recipe's model; the demo's is pretrained first if `make`."""
    if recipe.model.path == "demo":
        return str(base_model() if make else base_model_folder())
    model = local_or_hub("model", recipe.model.path)
    return os.path.abspath(model) if os.path.isdir(model) else model


def base_model_folder() -> Path:
    """The folder of the base model, which may not exist yet, in `$XDG_CACHE_HOME/ktae/demo` or
    `~/.cache/ktae/demo`. Its name has a digest of all versions and settings.
    """
    settings = {
        "pretraining": VERSION,
        "language": ["sums", sums.VERSION, sums.SALT],
        "steps": STEPS,
        "size": model.SIZE,
        "optimizer": ["AdamW", BETAS, WARM_UP, FINAL_LEARNING_RATE],
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return caches / "ktae" / "demo" / f"base-sums-{model.SIZE['name']}-seed0-{digest}"
