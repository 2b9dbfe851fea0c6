"""Units larger than one token, as keys that the estimator takes in place of token ids."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID, Array, ArrayLike, as_array, is_tensor, on_host
from ktae.batch import bad_token_id, check_tokens
from ktae.errors import InputError

if TYPE_CHECKING:
    import torch

    from ktae.batch import Vocabulary

POSITION_BUCKET = 8
"""Tokens in a bucket of the unit `position`."""

POSITIONS_PER_CHUNK = 1 << 20
"""Padded positions that a thread takes at a time."""


class Unit(NamedTuple):
    """A kind of unit."""

    description: str
    needs_vocabulary: bool = False


UNITS = {
    "token": Unit("the token itself"),
    "bigram": Unit("the token before and this one"),
    "trigram": Unit("the two tokens before and this one"),
    "position": Unit(f"the token, and in which {POSITION_BUCKET} tokens of the rollout it is"),
    "word": Unit("a run of letters and digits, or a token that is none", needs_vocabulary=True),
    "line": Unit("the text between line breaks", needs_vocabulary=True),
    "step": Unit("the text between blank lines", needs_vocabulary=True),
}
"""What there is, by name."""


def unit_keys(
    unit: str, token_ids: ArrayLike, mask: ArrayLike, *, vocabulary: Vocabulary | None = None
) -> Array:
    """A key for the unit that each token belongs to; equal units have equal keys.

    Give the keys to `ktae.token_credit` in place of the token ids, as `OverUnits` does: rollouts
    are then compared by the units that they contain, and every token of a unit gets the unit's
    credit. (A unit's frequency is the share of tokens that belong to it, so a long one weighs
    more.) Masked positions, padding and tool output, are passed over as if they were not there: the
    token before one is the last unmasked one, and a word may go on behind a hole.

    - `token`: the ids as they came.
    - `bigram`, `trigram`: the one or two tokens before and the token itself, whose unit it is. In
      place of tokens before the rollout's first there is a mark of its own.
    - `position`: the token and its unmasked position in the rollout, divided by 8.
    - `word`: letters with their marks, digits and underscores, as far as they go ("don't" is three
      units, and so is 3.14; scripts without blanks are not cut); every other token alone. A token
      is never cut: it continues the word before it if it begins with a word character.
    - `line`: up to a line break. What a break is attached to, and blank lines, belong to the line
      before.
    - `step`: up to a blank line, as step-wise verifiers cut a solution (ProcessBench,
      arXiv:2412.06559); formulas set on lines of their own do not end it.

    Words, lines and steps are compared by their text without blanks, however it was tokenised: as a
    word " so" is "so", and units of blanks alone are equal. In free reasoning nine of ten lines and
    steps are in one rollout of their group only, and so say little; they suit formulaic answers.

    Keys are hashes of 31 bits. That two of 8,000 distinct units of a group get the same happens in
    1.5 % of groups; their evidence is then counted together, under permuted labels too, so that
    nothing is biased by it.

    Args:
        unit: a name in `UNITS`.
        token_ids: (B, T) integers, 0 to 2^31 - 1 where unmasked, anything elsewhere.
        mask: (B, T) bool, integers or floats; a position counts where it is not 0.
        vocabulary: the tokens' texts, for `word`, `line` and `step`
            (`ktae.rollouts.tokens.vocabulary` makes one of a tokenizer). An id that it does not
            know is a unit of its own among words, and otherwise text without breaks.

    Returns:
        (B, T) int32 from 0 to 2^31 - 1, 0 where masked (`token`: `token_ids` itself). Arrays give
        an array, torch tensors a tensor on the same device. Units of ids alone are computed on that
        device, and the host does not wait for it; those of text go through the host.

    Raises:
        InputError: (a ValueError) there is no such unit, or no vocabulary for it; shapes or dtypes
            do not fit; an id is out of range at an unmasked position. (In a GPU's memory nobody
            looks for that, as the host would have to wait.)
    """
    if unit not in UNITS:
        raise InputError(f"no unit {unit!r}; expected one of {', '.join(UNITS)}")
    if UNITS[unit].needs_vocabulary and vocabulary is None:
        raise InputError(
            f"the unit {unit!r} is made of text and needs the tokens' texts: give vocabulary= "
            "(ktae.rollouts.tokens.vocabulary makes one of a tokenizer). Without it there are "
            + ", ".join(name for name, u in UNITS.items() if not u.needs_vocabulary)
        )
    if not is_tensor(token_ids):
        ids_bt, mask_bt = as_array("token_ids", token_ids), as_array("mask", on_host(mask))
        check_tokens(ids_bt, mask_bt)
        return token_ids if unit == "token" else _array_keys(unit, ids_bt, mask_bt, vocabulary)
    torch = sys.modules["torch"]
    if not is_tensor(mask):
        mask = torch.from_numpy(np.not_equal(as_array("mask", mask), 0))
    check_tokens(token_ids, mask)
    if unit == "token":
        return token_ids
    device, token_ids, mask = token_ids.device, token_ids.detach(), mask.detach() != 0
    if device.type == "cpu" or UNITS[unit].needs_vocabulary:
        ids_bt, mask_bt = token_ids.cpu().numpy(), mask.cpu().numpy()
        keys = _array_keys(unit, ids_bt, mask_bt, vocabulary)
        return torch.from_numpy(keys).to(device)
    return tensor_keys(unit, token_ids, mask.to(device))


def _array_keys(
    unit: str, ids_bt: np.ndarray, mask_bt: np.ndarray, vocabulary: Vocabulary | None
) -> np.ndarray:
    """The compiled loops, over some rows at a time, in threads as the CPU backend does."""
    import numba

    kernel = _kernel(unit, vocabulary)
    keys = np.zeros(ids_bt.shape, dtype=np.int32)

    def fill(rows: slice) -> tuple[int, int]:
        row, column = kernel(*_plain(ids_bt[rows], mask_bt[rows]), keys[rows])
        return row + rows.start, column

    n_rows, width = ids_bt.shape
    step = max(1, POSITIONS_PER_CHUNK // max(1, width))
    bounds = [*range(0, n_rows, step), n_rows]
    chunks = [slice(*pair) for pair in itertools.pairwise(bounds)]
    n_threads = numba.config.NUMBA_NUM_THREADS  # not get_num_threads(), which starts numba's pool
    if len(chunks) > 1 and n_threads > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            errors = list(pool.map(fill, chunks))
    else:
        errors = [fill(chunk) for chunk in chunks]
    row, column = min(errors, default=(n_rows, 0))
    if row < n_rows:
        raise bad_token_id(ids_bt, row, column)
    return keys


def _kernel(unit: str, vocabulary: Vocabulary | None) -> Callable[..., tuple[int, int]]:
    from ktae.backends import unit_kernels as kernels

    if unit == "position":
        return lambda ids, mask, out: kernels.position_rows(ids, mask, POSITION_BUCKET, out)
    if not UNITS[unit].needs_vocabulary:
        n = {"bigram": 2, "trigram": 3}[unit]
        return lambda ids, mask, out: kernels.ngram_rows(ids, mask, n, out)
    assert vocabulary is not None
    breaks = {"word": kernels.WORD_BREAKS, "line": 1, "step": 2}[unit]
    return lambda ids, mask, out: kernels.text_rows(ids, mask, *vocabulary, breaks, out)


def _plain(ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous int32 or int64 ids and a mask of bytes, aligned to 8, without a copy if they are
    so already; read-only, since numba would compile once more for arrays of the other kind."""
    if ids.dtype not in (np.int32, np.int64):
        if ids.dtype == np.uint64:  # would wrap
            ids = np.minimum(ids, np.uint64(MAX_TOKEN_ID + 1))
        ids = ids.astype(np.int64)
    ids = np.require(ids, requirements=("C", "A")).view()
    if mask.itemsize != 1 or not mask.flags.c_contiguous or mask.ctypes.data % 8:
        mask = np.not_equal(mask, 0, order="C")
    mask = mask.view(np.uint8)
    ids.flags.writeable = mask.flags.writeable = False
    return ids, mask


def tensor_keys(unit: str, ids_bt: torch.Tensor, mask_bt: torch.Tensor) -> torch.Tensor:
    """(B, T) int32 keys of `bigram`, `trigram` or `position`, on the device of the tensors.

    What `unit_keys` computes for tensors in a GPU's memory: the same numbers as the compiled loops,
    by whole-array operations that the host need not wait for. `mask_bt` is bool.
    """
    import torch

    ids_bt = torch.where(mask_bt, ids_bt.long(), 0)  # torch computes with no unsigned ones
    nothing = torch.full_like(ids_bt[:, :1], -1)
    if unit == "position":
        bucket = (mask_bt.long().cumsum(1) - 1).div(POSITION_BUCKET, rounding_mode="floor")
        state = _mix(_mix(torch.zeros_like(ids_bt), bucket), ids_bt)
    else:
        # Where the last unmasked position before each one is, from 1; 0: there is none.
        columns = torch.arange(1, ids_bt.shape[1] + 1, device=ids_bt.device)
        latest = torch.where(mask_bt, columns, 0).cummax(1).values
        before = torch.cat([nothing + 1, latest], dim=1)  # one column longer, for place 0
        tokens = torch.cat([nothing, ids_bt], dim=1)
        places, state = before[:, :-1], torch.zeros_like(ids_bt)
        previous = [tokens.gather(1, places)]
        if unit == "trigram":
            # Entry p of `before` belongs to column p, whose place is p + 1.
            earlier = before.gather(1, (places - 1).clamp(min=0)) * (places > 0)
            previous.insert(0, tokens.gather(1, earlier))
        for tokens_before in [*previous, ids_bt]:
            state = _mix(state, tokens_before)
    return torch.where(mask_bt, _finish(state), 0).int()


def _mix(state: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    from ktae.backends.unit_kernels import MIX

    state = (state ^ (number + 1)) * _signed(MIX)
    return state ^ (state >> 32 & 0xFFFFFFFF)  # torch's shift keeps the sign


def _finish(state: torch.Tensor) -> torch.Tensor:
    from ktae.backends.unit_kernels import FINISH

    return (state * _signed(FINISH)) >> 33 & MAX_TOKEN_ID


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
