"""Estimators of token credit as values: small frozen settings that compose.

`preset("calibrated")`, `KTAE(h3=0)`, `Centred(OverUnits(PresenceZ(), ("trigram",)))`. Each equals
itself, prints itself, and survives a round trip through a recipe; `Function(function)` is one too.
"""

from ktae.estimators.anchor_states import AnchorStates
from ktae.estimators.backoff import Backoff
from ktae.estimators.base import AdvantageEstimator, Estimator
from ktae.estimators.controls import PermutedLabels, RandomPlaces
from ktae.estimators.function import CreditFunction, Function, ImportPath, resolved
from ktae.estimators.ktae import KTAE
from ktae.estimators.policy import AdvantageReweighting, EntropyWeights
from ktae.estimators.presence import PresenceZ
from ktae.estimators.salt import Salt
from ktae.estimators.section import (
    DEFAULT,
    KINDS,
    PRESETS,
    TRANSFORMS,
    as_estimator,
    from_section,
    preset,
    to_section,
    to_text,
)
from ktae.estimators.sequences import ConflictTokens, Tempo
from ktae.estimators.stride import Stride
from ktae.estimators.transforms import Centred, Ignoring, OverUnits, Scaled, Transform
from ktae.estimators.turn_rewards import MTGRPO, TurnRewards
from ktae.estimators.units import UNITS, unit_keys

__all__ = [
    "DEFAULT",
    "KINDS",
    "KTAE",
    "MTGRPO",
    "PRESETS",
    "TRANSFORMS",
    "UNITS",
    "AdvantageEstimator",
    "AdvantageReweighting",
    "AnchorStates",
    "Backoff",
    "Centred",
    "ConflictTokens",
    "CreditFunction",
    "EntropyWeights",
    "Estimator",
    "Function",
    "Ignoring",
    "ImportPath",
    "OverUnits",
    "PermutedLabels",
    "PresenceZ",
    "RandomPlaces",
    "Salt",
    "Scaled",
    "Stride",
    "Tempo",
    "Transform",
    "TurnRewards",
    "as_estimator",
    "from_section",
    "preset",
    "resolved",
    "to_section",
    "to_text",
    "unit_keys",
]
