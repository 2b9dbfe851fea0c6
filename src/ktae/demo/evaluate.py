"""How well a model does the problems of a demo language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ktae.demo.episodes import play
from ktae.demo.language import Language, Problem
from ktae.demo.model import one_thread
from ktae.evaluation.generation import Generations, generate


class DemoScores(NamedTuple):
    """Means over the problems, one greedy and one sampled response each."""

    greedy_accuracy: float
    """Share of the problems that the greedy response solves, 0 to 1."""
    sampled_accuracy: float
    """Share of the problems that one sample at temperature 1 solves, 0 to 1."""
    greedy_length: float
    """Tokens of a greedy response, `<eos>` included."""
    sampled_length: float
    """Tokens of a sampled response, `<eos>` included."""
    entropy: float
    """Nats a token, over the sampled responses."""


def evaluate(
    language: Language[Any],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: Sequence[Problem],
    *,
    seed: int,
    max_new_tokens: int | None = None,
) -> DemoScores:
    """Answer each problem greedily and once by sampling; a few seconds for 512 problems.

    A response is correct if its answer is right and it came to its end within `max_new_tokens`, the
    language's own limit by default.
    """

    def answer(temperature: float) -> Generations:
        return generate(
            model,
            tokenizer,
            [problem.prompt for problem in problems],
            max_new_tokens=max_new_tokens or language.max_response_length,
            temperature=temperature,
            batch_size=256,
            seed=seed,
        )

    with one_thread():
        if language.environment is not None:
            return _of_episodes(language, model, tokenizer, problems, seed, max_new_tokens)
        greedy, sampled = answer(0.0), answer(1.0)
    return DemoScores(
        greedy_accuracy=float(np.mean(verdicts(language, greedy, problems))),
        sampled_accuracy=float(np.mean(verdicts(language, sampled, problems))),
        greedy_length=float(np.mean([len(ids) for ids in greedy.token_ids])),
        sampled_length=float(np.mean([len(ids) for ids in sampled.token_ids])),
        entropy=sampled.mean_entropy,
    )


def _of_episodes(
    language: Language[Any],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: Sequence[Problem],
    seed: int,
    max_tokens: int | None,
) -> DemoScores:
    """The same where a response has several turns; its length is that of the policy's tokens."""
    prompts = [problem.prompt for problem in problems]
    greedy, sampled = (
        play(language, model, tokenizer, prompts, temperature=t, seed=seed, max_tokens=max_tokens)
        for t in (0.0, 1.0)
    )
    return DemoScores(
        greedy_accuracy=float(np.mean(greedy.solved)),
        sampled_accuracy=float(np.mean(sampled.solved)),
        greedy_length=float(np.mean([sum(mask) for mask in greedy.mask])),
        sampled_length=float(np.mean([sum(mask) for mask in sampled.mask])),
        entropy=sampled.entropy,
    )


def verdicts(
    language: Language[Any], generations: Generations, problems: Sequence[Problem]
) -> list[bool]:
    """Whether each problem's response is right and came to its end."""
    responses = zip(problems, generations.texts, generations.finished, strict=True)
    return [language.is_correct(text, p.answer, done) for p, text, done in responses]
