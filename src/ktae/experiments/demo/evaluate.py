"""How well a model does the problems of a demo language, in one response or turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ktae.experiments.demo.language import EOS, Language, Problem
from ktae.experiments.demo.model import one_thread
from ktae.experiments.generation import Generations, generate

LONGEST_TURN = 6
"""Tokens; a turn without `<eos>` is cut there, and counts as it is."""


class DemoScores(NamedTuple):
    """Means over the problems, one greedy response and one sampled at temperature 1 each."""

    greedy_accuracy: float
    """Share of the problems that are solved, 0 to 1."""
    sampled_accuracy: float
    greedy_length: float
    """Tokens of the policy's, `<eos>` included."""
    sampled_length: float
    entropy: float
    """Nats a token, over the sampled responses."""


def evaluate(
    language: Language,
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
    prompts = [problem.prompt for problem in problems]
    longest = max_new_tokens or language.max_response_length
    scores: dict[str, float] = {}
    for name, temperature in (("greedy", 0.0), ("sampled", 1.0)):
        how: dict[str, Any] = {"temperature": temperature, "seed": seed}
        with one_thread():
            if language.environment is not None:
                played = play(language, model, tokenizer, prompts, max_tokens=longest, **how)
                correct, lengths = played.solved, [sum(mask) for mask in played.mask]
                entropy = played.entropy
            else:
                how |= {"max_new_tokens": longest, "batch_size": 256}
                made = generate(model, tokenizer, prompts, **how)
                correct = verdicts(language, made, problems)
                lengths, entropy = [len(ids) for ids in made.token_ids], made.mean_entropy
        means = {"accuracy": np.mean(correct), "length": np.mean(lengths)}
        scores |= {f"{name}_{key}": float(mean) for key, mean in means.items()}
    return DemoScores(**scores, entropy=entropy)


def verdicts(
    language: Language, generations: Generations, problems: Sequence[Problem]
) -> list[bool]:
    """Whether each problem's response is correct and came to its end."""
    responses = zip(problems, generations.texts, generations.finished, strict=True)
    return [language.is_correct(text, p.answer, done) for p, text, done in responses]


class Episodes(NamedTuple):
    """One episode a prompt, in the order of the prompts."""

    prompt_ids: list[list[int]]
    token_ids: list[list[int]]
    """Turns, and the observations after them."""
    mask: list[list[int]]
    """1 where the policy wrote the token, 0 in observations."""
    solved: list[bool]
    entropy: float
    """Nats a token of the policy's."""


def play(
    language: Language,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    temperature: float,
    seed: int,
    max_tokens: int,
) -> Episodes:
    """Play an episode from each prompt, all of them turn by turn together.

    Args:
        language: one with an environment.
        model: on any device.
        tokenizer: the language's.
        prompts: B texts, each of which describes its environment.
        temperature: 0 is greedy.
        seed: of the sampling.
        max_tokens: no turn begins in an episode that is so long.
    """
    assert language.environment is not None
    environments = [language.environment(prompt) for prompt in prompts]
    prompt_ids: list[list[int]] = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    texts, running = list(prompts), list(range(len(prompts)))
    ids: list[list[int]] = [[] for _ in prompts]
    mask: list[list[int]] = [[] for _ in prompts]
    turn, nats, n_written = 0, 0.0, 0
    while running:
        made = generate(
            model,
            tokenizer,
            [texts[i] for i in running],
            max_new_tokens=LONGEST_TURN,
            temperature=temperature,
            batch_size=len(running),
            seed=seed + turn,
        )
        n = sum(map(len, made.token_ids))
        nats, n_written, turn = nats + n * made.mean_entropy, n_written + n, turn + 1
        going_on = []
        for i, written in zip(running, made.token_ids, strict=True):
            move = tokenizer.decode(written)
            saw = environments[i].act(move.removesuffix(EOS).strip())
            said = [] if saw is None else tokenizer(saw)["input_ids"]
            ids[i] += [*written, *said]
            mask[i] += [1] * len(written) + [0] * len(said)
            texts[i] = f"{texts[i]} {move} {saw}"
            if saw is not None and not environments[i].solved and len(ids[i]) < max_tokens:
                going_on.append(i)
        running = going_on
    solved = [environment.solved for environment in environments]
    return Episodes(prompt_ids, ids, mask, solved, nats / max(1, n_written))
