"""Is this answer right? One grader for training and evaluation, with four possible verdicts.

`grade` grades one response. Extraction, and then comparison through math-verify, happen
in worker processes that are killed at a time limit: see `ktae.grading.pool`. Importing this
costs no math-verify and no sympy; the workers load them.
"""

from ktae.grading.pool import GradingPool, Task, default_pool, grade
from ktae.grading.rewards import accuracy
from ktae.grading.verdict import Outcome, Verdict

__all__ = ["GradingPool", "Outcome", "Task", "Verdict", "accuracy", "default_pool", "grade"]
