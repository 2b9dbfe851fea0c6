"""Writes a dump of random rollouts: JSON Lines with texts, token ids and rewards, and a tokenizer.

A word is a token; words are random letters, and nothing is copied from anywhere. Their frequencies
fall as Zipf's, half of a rollout's words are its problem's own, and some speak for a correct
answer. The same arguments write the same bytes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

VOCABULARY = 32_000
OF_A_PROBLEM = 400
"""Words that a problem has for itself."""
SIGNS = 5
"""Words before all others that no random text has: what an answer is written with."""
GROUP = 16
LENGTH = 700


def words(rng: np.random.Generator) -> list[str]:
    """Distinct words, each with its leading space, in JSON's and in Python's spelling alike."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    found: dict[str, None] = dict.fromkeys(["\\boxed{", "}", "0", "1", ".\n"])
    while len(found) < VOCABULARY:
        drawn = letters[(26 * rng.random(rng.integers(2, 8)) ** 2).astype(int)]
        found.setdefault(" " + "".join(drawn))
    return list(found)


def groups(n: int, vocabulary: list[str], rng: np.random.Generator) -> Iterator[list[str]]:
    """The lines of each of n problems."""
    falling = np.cumsum(1 / np.arange(1, VOCABULARY - SIGNS + 1))
    spelt = [json.dumps(word)[1:-1] for word in vocabulary]
    for number in range(n):
        own = rng.integers(SIGNS, VOCABULARY, OF_A_PROBLEM)
        prompt = "What is" + "".join([spelt[i] for i in own[:20]]) + "?"
        ease = rng.beta(0.8, 0.8)
        lines = []
        for _ in range(GROUP):
            right = rng.random() < ease
            length = int(np.clip(rng.gamma(8, LENGTH / 8), 20, 4 * LENGTH))
            ids = SIGNS + np.searchsorted(falling, rng.random(length) * falling[-1])
            of_own = rng.random(length) < 0.5
            low = 0.0 if right else 0.25  # correct rollouts have the first words more often
            places = low + (1 - low) * rng.random(of_own.sum()) ** 2
            ids[of_own] = own[(OF_A_PROBLEM * places).astype(int)]
            answer = number % 2 if right else 1 - number % 2
            ids = [*ids.tolist(), 4, 0, 2 + answer, 1]
            text = "".join([spelt[i] for i in ids])
            lines.append(
                f'{{"group": "problem {number}", "step": {number // 64}, '
                f'"prompt": "{prompt}", "answer": "{number % 2}", '
                f'"response": "{text}", "token_ids": {ids}, "reward": {float(right)}}}\n'
            )
        yield lines


def write(folder: Path, n_rollouts: int, seed: int = 0) -> Path:
    """The dump `folder`/rollouts-N.jsonl, beside its tokenizer in `folder`/tokenizer."""
    rng = np.random.default_rng(seed)
    vocabulary = words(rng)
    write_tokenizer(folder / "tokenizer", vocabulary)
    path = folder / f"rollouts-{n_rollouts}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for lines in groups(n_rollouts // GROUP, vocabulary, rng):
            file.writelines(lines)
    return path


def write_tokenizer(folder: Path, vocabulary: list[str]) -> None:
    """A tokenizer that cuts a response into its words."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    numbers = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=vocabulary[5]))
    cut = Regex(r" [a-z]+|\\boxed\{|\.\n|[01}]")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(cut, "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
