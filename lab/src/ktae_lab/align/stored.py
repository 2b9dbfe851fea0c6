"""Many measurements as three tables, which are committed instead of an `align.json` each.

`measurements.csv` has a row for each measurement and metric, `references.csv` one for each block of
its reference, and `products.csv.gz` one for each estimator and batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.files.atomic import make_folder
from ktae_lab.align.products import Alignment, Blocks, Products
from ktae_lab.csv_files import read_csv, write_csv

MEASUREMENTS, REFERENCES, PRODUCTS = "measurements.csv", "references.csv", "products.csv.gz"
KEYS = ("measurement", "metric")
COLUMNS = (*KEYS, "reliability", "accuracy", "reference_prompts", "batches")
"""Of `measurements.csv`, before those of the machine."""
PRODUCT = tuple(Products.__dataclass_fields__)


class Measured(NamedTuple):
    """One measurement, how much was sampled for it, and where."""

    alignment: Alignment
    reference_prompts: int
    batches: int
    machine: Mapping[str, str]
    """Processor, versions, date and so on."""


def write(folder: Path, measured: Mapping[str, Measured]) -> None:
    """Write the tables of measurements, by name, into a folder; seven digits of each number.

    Raises:
        InputError: a file cannot be written.
    """
    make_folder(folder)
    write_csv(folder / MEASUREMENTS, [row for m in measured.items() for row in _about(*m)])
    write_csv(folder / REFERENCES, [row for m in measured.items() for row in _references(*m)])
    write_csv(folder / PRODUCTS, [row for m in measured.items() for row in _products(*m)])


def read(folder: Path) -> dict[str, Measured]:
    """All measurements of a folder's tables, by name.

    Raises:
        InputError: a table cannot be read, lacks a column, or holds what is no number.
    """
    about: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for row in read_csv(folder / MEASUREMENTS, COLUMNS):
        about[row["measurement"]][row["metric"]] = row
    references = _grouped(read_csv(folder / REFERENCES, (*KEYS, "block")))
    products = _grouped(read_csv(folder / PRODUCTS, (*KEYS, "estimator", *PRODUCT)))
    try:
        return {
            name: _measured(rows, references.get(name, {}), products[name])
            for name, rows in about.items()
        }
    except (KeyError, ValueError) as error:
        raise InputError(f"the tables in {folder} do not fit together: {error}") from None


Rows = dict[str, list[dict[str, str]]]
"""By metric."""


def _grouped(rows: list[dict[str, str]]) -> dict[str, Rows]:
    """By measurement and metric."""
    found: dict[str, Rows] = {}
    for row in rows:
        of_metric = found.setdefault(row["measurement"], {}).setdefault(row["metric"], [])
        of_metric.append(row)
    return found


def _measured(about: Mapping[str, Mapping[str, str]], references: Rows, products: Rows) -> Measured:
    by_estimator = {metric: _by_estimator(products[metric]) for metric in about}
    any_metric = next(iter(about.values()))
    alignment = Alignment(
        reliability={metric: float(row["reliability"]) for metric, row in about.items()},
        products={
            metric: {
                name: [Products(**{key: float(row[key]) for key in PRODUCT}) for row in rows]
                for name, rows in own.items()
            }
            for metric, own in by_estimator.items()
        },
        accuracy=float(any_metric["accuracy"]),
        blocks={
            metric: Blocks(
                rr=[_numbers(row, "rr") for row in rows],
                br=[_numbers(row, "br") for row in next(iter(by_estimator[metric].values()))],
                tr={
                    name: [_numbers(row, "tr") for row in own]
                    for name, own in by_estimator[metric].items()
                },
            )
            for metric, rows in references.items()
        },
    )
    return Measured(
        alignment,
        int(any_metric["reference_prompts"]),
        int(any_metric["batches"]),
        {key: text for key, text in any_metric.items() if key not in COLUMNS},
    )


def _by_estimator(rows: list[dict[str, str]]) -> Rows:
    found: Rows = defaultdict(list)
    for row in rows:
        found[row["estimator"]].append(row)
    return found


def _numbers(row: Mapping[str, str], what: str) -> list[float]:
    """(K,) products with each block; a table is as wide as its largest reference."""
    return [float(x) for name, x in row.items() if name.startswith(f"{what}_") and x]


def _about(name: str, measured: Measured) -> Iterator[dict[str, Any]]:
    for metric, reliability in measured.alignment.reliability.items():
        prompts, batches = measured.reference_prompts, measured.batches
        row = (name, metric, reliability, measured.alignment.accuracy, prompts, batches)
        yield dict(zip(COLUMNS, row, strict=True)) | dict(measured.machine)


def _references(name: str, measured: Measured) -> Iterator[dict[str, Any]]:
    for metric, blocks in measured.alignment.blocks.items():
        for k, products in enumerate(blocks.rr):
            yield {"measurement": name, "metric": metric, "block": k} | _columns("rr", products)


def _products(name: str, measured: Measured) -> Iterator[dict[str, Any]]:
    for metric, by_estimator in measured.alignment.products.items():
        blocks = measured.alignment.blocks.get(metric)
        for estimator, products in by_estimator.items():
            for n, one in enumerate(products):
                row = {"measurement": name, "metric": metric, "estimator": estimator, "batch": n}
                row |= {key: getattr(one, key) for key in PRODUCT}
                if blocks is not None:
                    row |= _columns("br", blocks.br[n]) | _columns("tr", blocks.tr[estimator][n])
                yield row


def _columns(what: str, products: list[float]) -> dict[str, float]:
    return {f"{what}_{k}": x for k, x in enumerate(products)}
