"""Tables of a study, as CSV or as CSV in gzip."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ktae.errors import InputError, reason
from ktae.files.atomic import atomic_write

if TYPE_CHECKING:
    from ktae_lab.study.contrasts import Compared

NAMES = ("task", "method", "base_model")
"""Columns of texts, which may be empty."""


def read_table(path: Path) -> pd.DataFrame:
    """A table of a study, or another CSV; of runs, empty names of tasks and base models are texts.

    Raises:
        InputError: it cannot be read.
    """
    try:
        # A commit such as 3499013e2622 would be read as a number.
        table = pd.read_csv(path, dtype=dict.fromkeys((*NAMES, "commit", "recipe_digest"), str))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from None
    return table.fillna({name: "" for name in NAMES if name in table})


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a CSV, in gzip where the name says so; seven digits of a float, as rounding differs
    beyond. The same table is the same bytes.

    Raises:
        InputError: it cannot be written.
    """
    compression = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None
    with atomic_write(path) as temporary:
        table.to_csv(
            temporary, index=False, float_format="%.7g", lineterminator="\n",
            compression=compression,
        )  # fmt: skip


def as_row(study: str, compared: Compared) -> dict[str, Any]:
    """A row of `comparisons.csv`: a digit more than pages show."""
    digits = (1 if compared.comparison.outcome == "length" else 3) + 1

    def signed(value: float) -> str:
        return f"{round(value, digits) + 0.0:+.{digits}f}"  # 0 has no minus sign

    row: dict[str, Any] = {"study": study, "announced": "yes" if compared.announced else "no"}
    row |= compared.comparison._asdict()
    row |= {"pairs": len(compared.differences), "planned": compared.planned}
    row |= dict.fromkeys(("mean", "low", "high", "p", "holm", "shown"), "")
    if len(compared.differences):
        row["mean"] = signed(compared.differences.mean())
    if compared.interval is not None:
        row |= {"low": signed(compared.interval.low), "high": signed(compared.interval.high)}
        row |= {"p": f"{compared.p_value:.7g}", "holm": f"{compared.corrected:.3g}"}
        row["shown"] = "yes" if compared.shown else "no"
    return row | {"note": compared.note}
