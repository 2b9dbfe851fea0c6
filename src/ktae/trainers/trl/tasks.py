"""Where prompts, answers and the reward come from: the demo's languages, whose prompts are complete
texts, and mathematics, reasoning-gym and files of one's own, whose prompts are messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from trl.rewards import get_soft_overlong_punishment

from ktae.data import gym, tasks
from ktae.demo import language_named
from ktae.demo.evaluate import evaluate, play
from ktae.demo.language import EOS
from ktae.errors import InputError
from ktae.evaluation.generation import generate
from ktae.evaluation.templates import written_out
from ktae.grading import Outcome
from ktae.grading.response import text_of
from ktae.recipe import Recipe

RewardFunction = Callable[..., list[float | None]]


def check_tokenizer(recipe: Recipe, tokenizer: Any) -> None:
    """Raise an InputError for a tokenizer that does not fit the task."""
    if recipe.task != "demo":
        if tokenizer.chat_template is None:
            raise InputError(
                f"task {recipe.task_source} has prompts of messages, and this tokenizer "
                f"({type(tokenizer).__name__}) has no chat template"
            )
        return
    words = language_named(recipe.demo.language).vocabulary
    missing = sorted(set(words) - tokenizer.get_vocab().keys())
    if missing or tokenizer.eos_token != EOS:
        raise InputError(
            f"task demo in the language {recipe.demo.language} needs a tokenizer of its "
            f"{len(words)} words that ends with {EOS}; this one ends with "
            f"{tokenizer.eos_token} and lacks {' '.join(missing[:5]) or 'none'}"
        )


def train_set(recipe: Recipe) -> Dataset:
    """Rows with `prompt` and `answer`, one for every prompt of the run."""
    if recipe.task != "demo":
        return Dataset.from_list([row._asdict() for row in tasks.train_rows(recipe)])
    n = recipe.steps * recipe.rollout.prompts_per_step
    problems = language_named(recipe.demo.language).train_problems(n, seed=recipe.seed)
    return Dataset.from_list([{"prompt": p.prompt, "answer": p.answer} for p in problems])


def reward_function(recipe: Recipe, tokenizer: Any) -> RewardFunction:
    """TRL's reward function; above `Recipe.correct_above` is correct, None is unknown."""
    language = language_named(recipe.demo.language)

    def of_language(
        completions: list[str], completion_ids: list[list[int]], answer: list[Any], **_: Any
    ) -> list[float | None]:
        """1.0 where the answer is right and the response ended by itself, else 0.0."""
        ended = [ids[-1:] == [tokenizer.eos_token_id] for ids in completion_ids]
        return [
            float(language.is_correct(text, expected, finished=finished))
            for text, expected, finished in zip(completions, answer, ended, strict=True)
        ]

    def of_environment(solved: list[bool], **_: Any) -> list[float | None]:
        """1.0 where the environment says that it was done, else 0.0."""
        return [float(done) for done in solved]

    def of_grader(completions: list[Any], reference: list[str], **_: Any) -> list[float | None]:
        """1.0 correct, 0.0 incorrect or unanswered, None where the grader cannot tell."""
        return [verdict.correct for verdict in tasks.grade(recipe, completions, reference)]

    def of_gym(completions: list[Any], reference: list[str], **_: Any) -> list[float | None]:
        """reasoning-gym's own score, for a graded estimator."""
        scores: list[float | None] = []
        for completion, expected in zip(completions, reference, strict=True):
            try:
                score = gym.score(text_of(completion), expected) or 0.0  # None: no answer
                scores.append(score)
            except gym.ScorerError:
                scores.append(None)
        return scores

    if recipe.task != "demo":
        correct: RewardFunction = of_gym if recipe.wants_scores else of_grader
    else:
        correct = of_language if language.environment is None else of_environment
    correct.__name__ = "correct"  # what TRL calls it
    return correct


def overlong_penalty(recipe: Recipe) -> RewardFunction | None:
    """DAPO's soft overlong punishment, which TRL adds to the rewards; None without a buffer."""
    if not recipe.algorithm.overlong_buffer:
        return None
    punish: RewardFunction = get_soft_overlong_punishment(
        recipe.rollout.max_response_length, recipe.algorithm.overlong_buffer
    )
    return punish


def rollout_function(recipe: Recipe, tokenizer: Any) -> Callable[..., dict[str, Any]] | None:
    """TRL's `rollout_func` where the policy acts turn by turn; None: TRL samples one response."""
    language = language_named(recipe.demo.language)
    if recipe.task != "demo" or language.environment is None:
        return None

    def episodes(prompts: list[str], trainer: Any) -> dict[str, Any]:
        """TRL's loop: a completion holds turns and observations, and `env_mask` is 0 there."""
        played = play(
            language,
            trainer.accelerator.unwrap_model(trainer.model),
            tokenizer,
            prompts,
            temperature=recipe.rollout.temperature,
            seed=int(torch.randint(2**31, ())),  # of the run's random numbers, as TRL's samples
            max_tokens=recipe.rollout.max_response_length,
        )
        return {
            "prompt_ids": played.prompt_ids,
            "completion_ids": played.token_ids,
            "logprobs": None,
            "env_mask": played.mask,
            "solved": played.solved,
        }

    return episodes


def held_out_scores(recipe: Recipe, model: Any, tokenizer: Any) -> dict[str, float]:
    """Of a model, on held-out problems: greedy, and sampled as in training."""
    length, temperature = recipe.rollout.max_response_length, recipe.rollout.temperature
    if recipe.task == "demo":
        language = language_named(recipe.demo.language)
        problems = language.test_problems(recipe.logging.eval_problems)
        sums = evaluate(language, model, tokenizer, problems, seed=0, max_new_tokens=length)
        return sums._asdict()
    rows = tasks.held_out_rows(recipe)
    prompts = [prompt_text(tokenizer, row.prompt) for row in rows]
    references = [row.reference for row in rows]
    scores: dict[str, float] = {}
    for name, heat in (("greedy", 0.0), ("sampled", temperature)):
        made = generate(
            model,
            tokenizer,
            prompts,
            max_new_tokens=length,
            temperature=heat,
            batch_size=64,
            seed=0,
        )
        outcomes = [verdict.outcome for verdict in tasks.grade(recipe, made.texts, references)]
        for outcome, share in (
            (Outcome.CORRECT, "accuracy"),
            (Outcome.UNANSWERED, "unanswered"),
            (Outcome.UNDECIDED, "undecided"),
        ):
            scores[f"{name}_{share}"] = outcomes.count(outcome) / len(outcomes)
        scores[f"{name}_length"] = sum(map(len, made.token_ids)) / len(outcomes)
    return scores


def prompt_text(tokenizer: Any, prompt: Any) -> str:
    """A prompt as the model sees it: messages go through the chat template."""
    return prompt if isinstance(prompt, str) else written_out(prompt, tokenizer)
