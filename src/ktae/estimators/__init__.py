"""Estimators of token credit as values: small frozen settings that compose.

`preset("calibrated")`, `KTAE(h3=0)`, `Centred(OverUnits(PresenceZ(), ("trigram",)))`. Each equals
itself, prints itself, and survives a round trip through a recipe. A function of your own is one
too: `Function(function)`, or the function itself wherever an estimator is asked for.
"""

from ktae.estimators.anchor_states import AnchorStates
from ktae.estimators.backoff import Backoff
from ktae.estimators.base import AdvantageEstimator, Estimator
from ktae.estimators.controls import (
    GroupMean,
    PermutedLabels,
    RandomPlaces,
    RolloutMean,
    ShuffledValues,
    WithinRollout,
)
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
from ktae.estimators.transforms import (
    Centred,
    Decayed,
    Ignoring,
    OverUnits,
    PostTransform,
    Scaled,
    Transform,
)
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
    "Decayed",
    "EntropyWeights",
    "Estimator",
    "Function",
    "GroupMean",
    "Ignoring",
    "ImportPath",
    "OverUnits",
    "PermutedLabels",
    "PostTransform",
    "PresenceZ",
    "RandomPlaces",
    "RolloutMean",
    "Salt",
    "Scaled",
    "ShuffledValues",
    "Stride",
    "Tempo",
    "Transform",
    "TurnRewards",
    "WithinRollout",
    "as_estimator",
    "from_section",
    "preset",
    "resolved",
    "to_section",
    "to_text",
    "unit_keys",
]
