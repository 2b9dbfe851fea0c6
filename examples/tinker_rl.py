"""Token credit in tinker-cookbook's RL loop, on sums of two numbers.

    python examples/tinker_rl.py              # trains; needs a key of the service
    python examples/tinker_rl.py --offline    # stops before the first call of the service

Offline, rollouts that are written down here take the place of sampled ones. The cookbook's own step
makes data of them, and what would be sent is printed: each token with its advantage.
"""

from __future__ import annotations

import argparse
import asyncio
from types import SimpleNamespace
from typing import Any

import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.recipes.math_rl.arithmetic_env import ArithmeticDatasetBuilder
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition

from ktae.trainers.tinker import token_credit

MODEL = "meta-llama/Llama-3.2-1B"
PROMPT = ["What", "is", "2", "+", "3", "?"]
ANSWERS = {"2 + 3 = 5 .": 1.0, "so 5 .": 1.0, "2 + 3 = 6 .": 0.0, "so 23 .": 0.0}
"""The rollouts of a group, and whether each is correct."""


def config() -> train.Config:
    """An ordinary configuration of the cookbook's; nothing in it is ktae's."""
    data = ArithmeticDatasetBuilder(
        batch_size=16,
        model_name_for_tokenizer=MODEL,
        renderer_name="role_colon",
        n_batches=20,
        group_size=8,
    )
    return train.Config(
        learning_rate=1e-4,
        dataset_builder=data,
        model_name=MODEL,
        recipe_name="ktae_sums",
        max_tokens=16,
        log_path="runs/tinker-sums",
    )


class Words:
    """A tokenizer that knows the words that it has seen."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def encode(self, words: list[str]) -> list[int]:
        """A number for each word."""
        self.words += [word for word in dict.fromkeys(words) if word not in self.words]
        return [self.words.index(word) for word in words]

    def decode(self, ids: Any, **_: Any) -> str:
        """The words of the numbers."""
        return " ".join(self.words[int(i)] for i in ids)


def trajectory(words: Words, answer: str, correct: float) -> Trajectory:
    """A rollout of one turn, as the cookbook's `ProblemEnv` leaves it."""
    action = words.encode(answer.split())
    turn = Transition(
        ob=tinker.ModelInput.from_ints(words.encode(PROMPT)),
        ac=TokensWithLogprobs(tokens=action, maybe_logprobs=[-1.0] * len(action)),
        reward=correct,
        episode_done=True,
        metrics={"correct": correct},
    )
    return Trajectory(transitions=[turn], final_ob=tinker.ModelInput.from_ints([]))


async def offline() -> None:
    """From rollouts to the data that the service would get, by the cookbook's own step."""
    words = Words()
    group = TrajectoryGroup(
        trajectories_G=[trajectory(words, *one) for one in ANSWERS.items()],
        final_rewards_G=[0.0] * len(ANSWERS),
        metrics_G=[{} for _ in ANSWERS],
    )
    builder: Any = SimpleNamespace(logging_tags=lambda: [])
    data, metrics, *_ = await train.prepare_minibatch([builder], [group], words, None, 0.0, 0.0)
    for datum in data:
        inputs = {name: x.to_torch() for name, x in datum.loss_fn_inputs.items()}
        for token, own, advantage in zip(
            inputs["target_tokens"], inputs["mask"], inputs["advantages"], strict=True
        ):
            if own:
                print(f"{words.decode([token]):>4} {float(advantage):+.3f}", end=" ")
        print()
    print(f"credit/mean_abs {metrics['credit/mean_abs']:.3f}")


def main() -> None:
    """Train, or stop before the first call of the service."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="stop before the service is called")
    arguments = parser.parse_args()
    settings = config()
    with token_credit(settings, credit="calibrated", correctness="correct"):
        asyncio.run(offline() if arguments.offline else train.main(settings))


if __name__ == "__main__":
    main()
