"""Episodes of a demo language with an environment, which a model plays turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ktae.experiments.demo.language import EOS, Language
from ktae.experiments.generation import generate

LONGEST_TURN = 6
"""Tokens; a turn without `<eos>` is cut there, and counts as it is."""


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
