"""The text of a rollout in a report, as the bytes of its tokens."""

from __future__ import annotations

import numpy as np

from ktae.report.columns import Columns
from ktae.rollouts import spelling


def spell(
    columns: Columns, texts: list[bytes | None], which_n: np.ndarray, row: int
) -> spelling.Spelling:
    """The spelling of one rollout; a token without text has none.

    Args:
        columns: the rollouts.
        texts: the bytes of each distinct token.
        which_n: (N,) each token's place in `texts`.
        row: the rollout.
    """
    return spelling.spell(texts, which_n[columns.offsets_b[row] : columns.offsets_b[row + 1]])
