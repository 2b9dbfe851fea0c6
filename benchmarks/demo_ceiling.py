"""Was there anything to gain on the demo's languages? GRPO against advantages by continuation.

    python benchmarks/demo_ceiling.py ktae.experiments.demo:SUMS ktae_lab.languages.lists:LISTS

*lists* is in lab/src at commit ef5644a3.

Three arms train the demo's base model (seed 0) by the plain policy gradient, one update a step:
`grpo`; `beside`, GRPO's advantages and exact ones added; `alone`, exact ones instead. Exact means
by continuation: V at every STRIDE-th position of every response of a mixed group, by CONTINUATIONS
samples of the policy itself, so with noise: they can gain less than exact credit. A token's
advantage is the difference of V around its segment, divided by the group's standard deviation as
GRPO's is.

Smaller than recipes/demo/grpo.yaml, to be affordable on one core: 4 prompts of 8 responses a step
and not 8 of 16, 60 steps and not 100, the loss is a mean over tokens. Each arm has its own learning
rate, the best of RATES on one tuning seed. Arms are paired by seed: the same problems. `area` is
the mean success on held-out problems, sampled once each at temperature 1, over the evaluations
after the start. It appends a row a run and goes on after the last one; at its end it prints the
differences from GRPO with t intervals over fresh seeds.

The committed file has one tuning seed an arm and rate, four fresh seeds of *sums* and three of
*lists*; *sums* was also tried at 3e-3, where every arm fell apart, as at 1e-3.
"""

import argparse
import csv
import importlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from continuations import continuations, segment_advantages
from estimator import append_rows, machine
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.experiments.demo.language import EOS, Language, Problem
from ktae.experiments.demo.pretrain import base_model
from ktae.inference import t_interval
from ktae.rollout_advantages import rollout_advantages

RESULTS = Path(__file__).parent / "results/demo_ceiling.csv"
ARMS = ("grpo", "beside", "alone")
RATES = (1e-4, 3e-4, 1e-3)
TUNING, FRESH = (1000,), (0, 1, 2, 3)
PROMPTS, GROUP, STRIDE, CONTINUATIONS = 4, 8, 4, 4
EVALUATE_EVERY, TEST_PROBLEMS = 10, 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("languages", nargs="+", metavar="module:LANGUAGE")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    languages = [named(text) for text in arguments.languages]
    run = Runs(arguments.csv, arguments.steps)
    for seed in TUNING:
        for language in languages:
            for arm in ARMS:
                for rate in RATES:
                    run.once(language, arm, rate, seed, "tuning")
    for seed in FRESH:
        for language in languages:
            for arm in ARMS:
                run.once(language, arm, best_rate(run.rows, language.name, arm), seed, "fresh")
    for language in languages:
        report(run.rows, language.name)


def named(text: str) -> Language:
    """The language that stands in a module, `module:LANGUAGE`."""
    module, _, name = text.partition(":")
    language: Language = getattr(importlib.import_module(module), name)
    return language


class Runs:
    """The runs of a CSV file; a new one is appended to it."""

    def __init__(self, path: Path, steps: int):
        self.path, self.steps = path, steps
        self.rows: list[dict[str, Any]] = []
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def once(self, language: Language, arm: str, rate: float, seed: int, role: str) -> None:
        """Train, unless that run is there."""
        which = {"language": language.name, "arm": arm, "rate": f"{rate:g}", "seed": str(seed)}
        which |= {"role": role, "steps": str(self.steps)}
        if any(which.items() <= row.items() for row in self.rows):
            return
        started = time.perf_counter()
        curve, mixed = train(language, arm, rate, seed, self.steps)
        row = which | {
            "prompts": str(PROMPTS),
            "group": str(GROUP),
            "stride": str(STRIDE),
            "continuations": str(CONTINUATIONS),
            "area": f"{np.mean(curve[1:]):.4f}",
            "start": f"{curve[0]:.4f}",
            "final": f"{curve[-1]:.4f}",
            "mixed": f"{mixed:.2f}",
            "curve": " ".join(f"{share:.3f}" for share in curve),
            "seconds": f"{time.perf_counter() - started:.0f}",
        }
        append_rows(self.path, [row | machine()])
        self.rows.append(row)
        print(" ".join(row.values()), flush=True)


def best_rate(rows: Sequence[dict[str, Any]], language: str, arm: str) -> float:
    """The rate with the highest mean area over the tuning seeds."""
    areas: dict[str, list[float]] = {}
    for row in rows:
        if (row["language"], row["arm"], row["role"]) == (language, arm, "tuning"):
            areas.setdefault(row["rate"], []).append(float(row["area"]))
    return float(max(areas, key=lambda rate: np.mean(areas[rate])))


def differences(
    rows: Sequence[dict[str, Any]], language: str, arm: str, measure: str
) -> NDArray[np.float64]:
    """(seeds,) an arm less GRPO, over the fresh seeds that both have."""
    values = {
        (row["arm"], row["seed"]): float(row[measure])
        for row in rows
        if (row["language"], row["role"]) == (language, "fresh")
    }
    seeds = [seed for name, seed in values if name == "grpo" and (arm, seed) in values]
    return np.array([values[arm, seed] - values["grpo", seed] for seed in seeds])


def report(rows: Sequence[dict[str, Any]], language: str) -> None:
    """Print what exact advantages gain over GRPO, with a 95 % interval."""
    for measure in ("area", "final"):
        for arm in ARMS[1:]:
            gains = differences(rows, language, arm, measure)
            if len(gains) > 1:
                gain, low, high = (f"{value:+.3f}" for value in t_interval(gains))
                place = f"{language} {measure}, {len(gains)} seeds"
                print(f"{place}: {arm} - grpo {gain} ({low} to {high})")


class Rollout(NamedTuple):
    prompt: list[int]
    response: tuple[int, ...]
    advantage_t: NDArray[Any]
    """(T,) what weighs the tokens' log-probabilities."""


def train(
    language: Language, arm: str, rate: float, seed: int, steps: int
) -> tuple[list[float], float]:
    """Success on held-out problems along the run, and the share of mixed groups."""
    folder = base_model(language, 0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()  # it has no dropout
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.95))
    problems = language.train_problems(steps * PROMPTS, seed)
    torch.manual_seed(seed)
    policy = Policy(language, model, tokenizer)
    curve, n_mixed = [policy.success()], 0
    for step in range(steps):
        batch = problems[step * PROMPTS : (step + 1) * PROMPTS]
        rollouts = policy.rollouts(batch, arm)
        n_mixed += sum(bool(rollout.advantage_t.any()) for rollout in rollouts)
        optimizer.zero_grad()
        policy.loss(rollouts).backward()
        optimizer.step()
        if (step + 1) % EVALUATE_EVERY == 0:
            curve.append(policy.success())
    return curve, n_mixed / (steps * PROMPTS * GROUP)


class Policy:
    """A demo model that answers problems."""

    def __init__(self, language: Language, model: Any, tokenizer: Any):
        self.language, self.model, self.tokenizer = language, model, tokenizer

    def answers(self, prefixes: Sequence[Sequence[int]], limit: list[int], k: int) -> list[Any]:
        """k continuations of each prefix."""
        end = self.tokenizer.eos_token_id
        order = sorted(range(len(prefixes)), key=lambda i: len(prefixes[i]))
        made = continuations(
            self.model,
            [prefixes[i] for i in order],
            repeats=[k] * len(order),
            limit=[limit[i] for i in order],
            ends=[end],
            rows=512,
        )
        back = dict(zip(order, made, strict=True))
        return [back[i] for i in range(len(order))]

    def right(self, problem: Problem, ids: Sequence[int]) -> bool:
        text = self.tokenizer.decode(ids)
        return bool(self.language.is_correct(text, problem.answer, text.endswith(EOS)))

    def success(self) -> float:
        """Share of held-out problems that one sampled response solves."""
        problems = self.language.test_problems(TEST_PROBLEMS)
        prompts = self.tokenizer([problem.prompt for problem in problems])["input_ids"]
        limit = [self.language.max_response_length] * len(prompts)
        made = self.answers(prompts, limit, 1)
        solved = [self.right(p, ids) for p, (ids,) in zip(problems, made, strict=True)]
        return float(np.mean(solved))

    def rollouts(self, problems: Sequence[Problem], arm: str) -> list[Rollout]:
        """A group of responses for each problem, with the arm's advantages."""
        prompts = self.tokenizer([problem.prompt for problem in problems])["input_ids"]
        limit = [self.language.max_response_length] * len(prompts)
        rollouts = []
        made = self.answers(prompts, limit, GROUP)
        for problem, prompt, group in zip(problems, prompts, made, strict=True):
            correct = np.array([self.right(problem, ids) for ids in group], dtype=float)
            counted = np.ones(GROUP, dtype=bool)
            base = rollout_advantages("grpo", correct, counted, np.zeros(GROUP, dtype=int))
            exact = [np.zeros(len(ids)) for ids in group]
            if arm != "grpo" and 0 < correct.mean() < 1:
                exact = [
                    advantage / (correct.std(ddof=1) + 1e-6)
                    for advantage in self.by_continuation(problem, prompt, group, correct)
                ]
            for ids, grpo, advantage in zip(group, base, exact, strict=True):
                rollouts.append(Rollout(prompt, ids, advantage + (arm != "alone") * grpo))
        return rollouts

    def by_continuation(
        self, problem: Problem, prompt: list[int], group: Sequence[Any], correct: NDArray[Any]
    ) -> list[NDArray[Any]]:
        """(T,) for each response: the advantage of the segment that a token stands in."""
        starts = sorted({ids[:t] for ids in group for t in range(0, len(ids), STRIDE)})
        limit = [self.language.max_response_length - len(start) for start in starts]
        made = self.answers([prompt + list(start) for start in starts], limit, CONTINUATIONS)
        value = {
            start: np.mean([self.right(problem, start + ids) for ids in several])
            for start, several in zip(starts, made, strict=True)
        }
        return [
            segment_advantages(
                [float(value[ids[:t]]) for t in range(0, len(ids), STRIDE)],
                float(verdict),
                STRIDE,
                len(ids),
            )
            for ids, verdict in zip(group, correct, strict=True)
        ]

    def loss(self, rollouts: Sequence[Rollout]) -> torch.Tensor:
        """The policy gradient's loss, a mean over the batch's tokens."""
        width = max(len(r.prompt) + len(r.response) for r in rollouts)
        ids = torch.zeros(len(rollouts), width, dtype=torch.long)
        weight = torch.zeros(len(rollouts), width)
        for row, (prompt, response, advantage_t) in enumerate(rollouts):
            end = len(prompt) + len(response)
            # Padding stands on the right, where no token looks at it
            ids[row, :end] = torch.tensor([*prompt, *response])
            weight[row, len(prompt) : end] = torch.from_numpy(advantage_t)
        log_probs = self.model(ids).logits[:, :-1].log_softmax(dim=-1)
        chosen = log_probs.gather(2, ids[:, 1:, None])[..., 0]
        return -(weight[:, 1:] * chosen).sum() / sum(len(r.response) for r in rollouts)


if __name__ == "__main__":
    main()
