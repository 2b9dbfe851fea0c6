"""The embedded default: a tiny language of sums, and a base model that solves some of them.

The language costs nothing to import. What needs torch is in the modules `model` (tokenizer and
model), `pretrain` (the base model) and `evaluate` (how well a model does).
"""

from ktae.demo.language import (
    Problem,
    extract_answer,
    is_correct,
    random_problem,
    test_problems,
    train_problems,
    worked_solution,
)

__all__ = [
    "Problem",
    "extract_answer",
    "is_correct",
    "random_problem",
    "test_problems",
    "train_problems",
    "worked_solution",
]
