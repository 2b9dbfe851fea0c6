"""The ways in which tools write rollouts, and which of them a row is written in."""

from __future__ import annotations

from ktae.rollouts.schemas import evaluation, nested, training, verifiers
from ktae.rollouts.schemas.base import Row, Schema

SCHEMAS = (
    training.TRL,
    training.VERL,
    training.SLIME,
    training.NEMO_RL,
    verifiers.TRACES,
    verifiers.RESULTS,
    evaluation.LM_EVAL,
    evaluation.LIGHTEVAL,
    evaluation.OLD_LIGHTEVAL,
    evaluation.AUTHORS,
    training.GROUPED,
    training.OPENRLHF,
    nested.NESTED,
)
"""In the order in which they are tried; a row that is none of them is plain."""


def detect(row: Row) -> Schema:
    """The schema of a row; plain where no other one fits."""
    # A row with a group and a response is what it says, whatever fields stand beside them.
    if nested.PLAIN.detects(row):
        return nested.PLAIN
    return next((schema for schema in SCHEMAS if schema.detects(row)), nested.PLAIN)
