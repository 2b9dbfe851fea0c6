"""The embedded demo: two tiny languages, each with a base model that solves some of its problems.

They are `sums` (arithmetic) and `rooms` (an agent, a key and a door, in several turns). Only the
modules `model`, `pretrain` and `play` need torch.
"""

from ktae.experiments.demo.language import Language
from ktae.experiments.demo.rooms import HOUSES
from ktae.experiments.demo.sums import SUMS

LANGUAGES = {language.name: language for language in (SUMS, HOUSES)}
"""By name."""

__all__ = ["HOUSES", "LANGUAGES", "SUMS", "Language"]
