"""Is this answer correct? One grader for training and evaluation, with four possible verdicts.

A response is read by its conventions (`ktae.grading.extract`), what it states is compared with what
is accepted (`ktae.grading.compare`), and both happen in processes that are killed at a time limit
(`ktae.grading.workers`). Importing this costs no sympy; the workers load it.
"""

from ktae.grading.rewards import accuracy
from ktae.grading.verdict import Outcome, Verdict
from ktae.grading.workers import GradingPool, Task, default_pool, grade

__all__ = ["GradingPool", "Outcome", "Task", "Verdict", "accuracy", "default_pool", "grade"]
