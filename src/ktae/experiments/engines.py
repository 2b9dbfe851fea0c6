"""Engines that generate responses: transformers anywhere, vLLM where it is installed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from ktae.errors import passed_on
from ktae.files.hub import check_local_or_hub


class Sampling(NamedTuple):
    """How responses are drawn."""

    samples: int = 1
    temperature: float = 0.0  # 0 means greedy decoding
    max_new_tokens: int = 3000  # with the end-of-sequence token; 3,000 in the paper's evaluation
    batch_size: int = 32  # responses at once; it changes the samples
    seed: int = 0  # the seed of the first batch; later ones count up


class Sample(NamedTuple):
    """One response."""

    text: str
    tokens: int
    finished: bool  # whether it ended by itself within the limit


def _loading(model: str, install: str) -> AbstractContextManager[None]:
    check_local_or_hub("model", model)
    # No such name, no such GPU, no memory
    kinds = (OSError, ValueError, RuntimeError)
    return passed_on(f"cannot load model {model}", *kinds, install=install)


class TransformersEngine:
    """A model in transformers, a folder or a hub name: on the GPU where there is one."""

    batch_size = 32  # the default number of responses at once

    def __init__(self, model: str) -> None:
        with _loading(model, "pip install 'ktae[eval]'"):
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
            from transformers.utils import logging

            logging.disable_progress_bar()  # the command line shows one of its own
            self.tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
            self.model = AutoModelForCausalLM.from_pretrained(
                model, dtype="auto", trust_remote_code=False
            )
        if torch.cuda.is_available():
            self.model.to("cuda")

    def generate(self, prompts: Sequence[str], sampling: Sampling, seed: int) -> list[list[Sample]]:
        """`sampling.samples` responses to each prompt; the same seed draws the same ones."""
        from ktae.experiments.generation import generate

        k = sampling.samples
        done = generate(
            self.model,
            self.tokenizer,
            # Each sample is a row of its own: transformers draws all rows independently.
            [prompt for prompt in prompts for _ in range(k)],
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            batch_size=sampling.batch_size,
            seed=seed,
        )
        samples = [
            Sample(text, len(ids), finished)
            for text, ids, finished in zip(done.texts, done.token_ids, done.finished, strict=True)
        ]
        return [samples[i : i + k] for i in range(0, len(samples), k)]


class VLLMEngine:
    """A model in vLLM, a folder or a hub name."""

    batch_size = 512

    def __init__(self, model: str) -> None:
        with _loading(model, "install vllm, or use --engine transformers"):
            import vllm

            self.sampling_params = vllm.SamplingParams
            self.llm = vllm.LLM(model=model, enable_prefix_caching=True)
            self.tokenizer = self.llm.get_tokenizer()

    def generate(self, prompts: Sequence[str], sampling: Sampling, seed: int) -> list[list[Sample]]:
        """As `TransformersEngine.generate`."""
        from ktae.experiments.generation import encode

        # Given text, vLLM would add a second bos token to that of a chat template.
        encoded = [{"prompt_token_ids": ids} for ids in encode(self.tokenizer, prompts)]
        # vLLM draws the same random numbers for all prompts of one seed, so each prompt has its
        # own; its i-th sample gets that seed plus i.
        params = [
            self.sampling_params(
                n=sampling.samples,
                temperature=sampling.temperature,
                top_p=1.0,
                max_tokens=sampling.max_new_tokens,
                seed=random.Random(f"{seed}/{i}").getrandbits(31),
            )
            for i in range(len(prompts))
        ]
        answers = self.llm.generate(encoded, params, use_tqdm=False)
        return [
            [Sample(o.text, len(o.token_ids), o.finish_reason == "stop") for o in answer.outputs]
            for answer in answers
        ]


Engine = TransformersEngine | VLLMEngine
ENGINES: dict[str, type[Engine]] = {"transformers": TransformersEngine, "vllm": VLLMEngine}
"""By name; each loads a model."""
