"""The embedded task: a demo language's problems, whose prompts are texts, and its own checker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from ktae.errors import InputError
from ktae.experiments.demo import LANGUAGES
from ktae.experiments.demo.language import EOS, Problem
from ktae.experiments.recipe import Recipe
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.grading.verdict import Verdict

VERL_SOURCE = "ktae/demo-"
"""The start of verl's `data_source`, before the language's name."""


class DemoTask(Task):
    """`task: demo`."""

    grader = "demo"
    evaluated_at_once = 256
    chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.language = LANGUAGES[recipe.demo.language]
        self.name = self.language.name
        self.data_source = f"{VERL_SOURCE}{self.language.name}"
        self.plays_episodes = self.language.environment is not None

    @override
    def train_rows(self) -> list[TaskRow]:
        n = self.recipe.steps * self.recipe.rollout.prompts_per_step
        return _as_rows(self.language.train_problems(n, seed=self.recipe.seed))

    @override
    def held_out_rows(self, n: int | None = None) -> list[TaskRow]:
        return _as_rows(self.language.test_problems(n or self.recipe.logging.eval_problems))

    @override
    def check_tokenizer(self, tokenizer: Any) -> None:
        words = self.language.vocabulary
        missing = sorted(set(words) - tokenizer.get_vocab().keys())
        if missing or tokenizer.eos_token != EOS:
            raise InputError(
                f"task demo in the language {self.language.name} needs a tokenizer of its "
                f"{len(words)} words that ends with {EOS}; this one ends with "
                f"{tokenizer.eos_token} and lacks {' '.join(missing[:5]) or 'none'}"
            )

    @override
    def _verdicts(
        self, responses: Sequence[str], references: Sequence[str], finished: Sequence[bool]
    ) -> list[Verdict]:
        graded = zip(responses, references, finished, strict=True)
        return [self.language.verdict(text, answer, done) for text, answer, done in graded]

    @override
    def _verl_reward_kwargs(self) -> dict[str, Any]:
        return {"max_response_length": self.recipe.rollout.max_response_length}


def _as_rows(problems: Sequence[Problem]) -> list[TaskRow]:
    return [TaskRow(p.prompt, str(p.answer), str(p.answer)) for p in problems]
