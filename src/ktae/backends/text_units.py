"""Keys of words, lines and steps, by a compiled loop."""

from __future__ import annotations

import numpy as np

from ktae.arrays import AT_ONCE, MAX_TOKEN_ID
from ktae.backends.compiled import end_of, in_threads, jit, kept, plain
from ktae.backends.units import LEAD_SHIFT, MANY, TAIL_SHIFT, finished, mixed
from ktae.batch import Vocabulary

BREAKS = {"word": 0, "line": 1, "step": 2}
"""How many line breaks units of text lie between; 0: words lie between other characters."""


def text_keys(
    unit: str, ids_bt: np.ndarray, mask_bt: np.ndarray, vocabulary: Vocabulary
) -> np.ndarray:
    """(B, T) int32 keys of `word`, `line` or `step`; 0 where masked. Token ids are in range."""
    keys_bt = np.zeros(ids_bt.shape, dtype=np.int32)
    n_rows, width = ids_bt.shape

    def fill(part: slice) -> None:
        arrays = plain(ids_bt, mask_bt, np.arange(part.start, part.stop))
        fill_keys(*arrays, vocabulary.looks, vocabulary.hashes, BREAKS[unit], keys_bt[part])

    in_threads(fill, [*range(0, n_rows, max(1, AT_ONCE // max(1, width))), n_rows])
    return keys_bt


# Compiled from here on.

mix, finish = jit(mixed), jit(finished)


@kept
def fill_keys(ids, mask, rows, looks, hashes, breaks, out):
    """Write the keys of words (`breaks` 0), or of what lies between that number of line breaks.

    A unit's hash is that of its text without blanks, as a polynomial over its bytes, whatever
    tokens it is made of. `looks` and `hashes` are those of a `Vocabulary`.
    """
    unknown = len(looks) - 1
    for i in range(len(out)):
        pending = last = seen = np.int64(0)
        state = np.uint64(0)
        end = end_of(mask[rows[i]])
        for t in range(end):
            if mask[rows[i], t] == 0:
                continue
            token = np.int64(ids[rows[i], t])
            known = min(token, unknown)
            look = np.int64(looks[known])
            # Where units begin cannot be predicted, so no branch may depend on it.
            if breaks == 0:
                begins = 1 - (last >> 1 & look & 1)
                last = look
            else:
                pending += look >> LEAD_SHIFT & MANY
                is_text = 1 - (look >> 2 & 1)
                begins = seen & is_text & (pending >= breaks)
                seen |= is_text
                pending = look >> TAIL_SHIFT if is_text else pending
            state = (state if begins == 0 else np.uint64(0)) * hashes[known, 1] + hashes[known, 0]
            if known == unknown:
                state = mix(state, np.uint64(token))
            # The key of the unit so far; a negative number where a unit begins.
            out[i, t] = np.int32(finish(state)) | np.int32(-begins) << np.int32(31)
        # Every position gets the key that its unit has at its last one.
        key, ends = np.int32(0), True
        for t in range(end - 1, -1, -1):
            if mask[rows[i], t] != 0:
                here = out[i, t]
                key = here & np.int32(MAX_TOKEN_ID) if ends else key
                ends = here < 0
                out[i, t] = key
