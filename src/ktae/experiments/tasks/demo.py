"""The embedded task: the demo's problems, whose prompts are texts, and its own checker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from ktae.errors import InputError
from ktae.experiments.demo import sums
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.grading.verdict import Verdict


class DemoTask(Task):
    """`task: demo`."""

    grader = "demo"
    evaluated_at_once = 256
    chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"

    @override
    def train_rows(self) -> list[TaskRow]:
        return _as_rows(sums.train_problems(self.n_prompts, self.recipe.seed))

    @override
    def held_out_rows(self) -> list[TaskRow]:
        return _as_rows(sums.held_out_problems(self.recipe.logging.eval_problems))

    @override
    def check_tokenizer(self, tokenizer: Any) -> None:
        missing = sorted(set(sums.VOCABULARY) - tokenizer.get_vocab().keys())
        if missing or tokenizer.eos_token != sums.EOS:
            raise InputError(
                f"task demo needs a tokenizer of its {len(sums.VOCABULARY)} words that ends with "
                f"{sums.EOS}; this one ends with {tokenizer.eos_token} and lacks "
                f"{' '.join(missing[:5]) or 'none'}"
            )

    @override
    def _verdicts(
        self, responses: Sequence[str], references: Sequence[str], finished: Sequence[bool]
    ) -> list[Verdict]:
        return [*map(sums.grade, responses, references, finished)]


def _as_rows(problems: Sequence[sums.Problem]) -> list[TaskRow]:
    return [TaskRow(p.prompt, str(p.answer), str(p.answer)) for p in problems]
