"""The embedded default: a tiny language, and a base model that solves some of its problems.

There are two: `sums` (numbers, one at a time), and `rooms` (an agent, a key and a door, in several
turns). This package costs nothing to import; its modules `model`, `pretrain` and `play` need torch.
"""

from ktae.experiments.demo.language import Language
from ktae.experiments.demo.rooms import HOUSES
from ktae.experiments.demo.sums import SUMS

LANGUAGES = {language.name: language for language in (SUMS, HOUSES)}
"""By name."""

__all__ = ["HOUSES", "LANGUAGES", "SUMS", "Language"]
