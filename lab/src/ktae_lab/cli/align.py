"""`ktae-lab align`: which estimator's gradient points to higher reward, on your own model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ktae import recipe as recipes
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError
from ktae.estimators import Estimator, from_section, resolved
from ktae.files.atomic import make_folder
from ktae.files.typed import parse_yaml

ESTIMATORS = (
    "paper",
    "calibrated",
    "paper, permuted labels={estimator: paper, transforms: [permuted-labels]}",
    "calibrated, permuted labels={estimator: calibrated, transforms: [permuted-labels]}",
)
"""By default: two presets, each beside its control."""
WEIGHTS = (0.3, 1.0, 2.0)
"""Norms of the credit's gradient, in multiples of GRPO's."""


def align(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE", help="The recipe: a YAML file with model, task, rollouts and loss."
        ),
    ],
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Replace keys of the recipe; model.path=RUN/checkpoints/checkpoint-50 looks along "
            "a run.",
        ),
    ] = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            metavar="[LABEL=]SPEC",
            help="Compare this estimator: a preset, or LABEL={estimator: ..., transforms: [...]}. "
            "Can be given several times [default: paper and calibrated, each with permuted labels "
            "too].",
        ),
    ] = None,
    batches: Annotated[
        int, typer.Option(min=2, metavar="N", help="Compare so many small batches.")
    ] = 60,
    reference_prompts: Annotated[
        int,
        typer.Option(min=2, metavar="N", help="Base the reference gradient on so many prompts."),
    ] = 768,
    rows_at_once: Annotated[
        int, typer.Option(min=1, metavar="N", help="Take so many rollouts in one backward pass.")
    ] = 64,
    device: Annotated[str, typer.Option(metavar="NAME", help="Compute here: cpu or cuda.")] = "cpu",
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Write three tables and a figure here."
        ),
    ] = Path("align"),
    as_json: AsJson = False,
) -> None:
    """Compare estimators by the cosine of their gradients to the true policy gradient.

    A large sample gives a reference gradient of the expected reward; small batches of the recipe's
    size give each estimator's. No training, minutes on a small model.
    """
    from ktae.cli.progress import Bars
    from ktae.trainers.trl.run import load_policy
    from ktae_lab.align.measure import Plan, measure, not_read
    from ktae_lab.align.summary import COVERED, METRICS, draw, rows

    checked = recipes.load(recipe, keys or ())
    chosen = labelled(estimators or ESTIMATORS)
    if (output / "products.csv.gz").exists():
        raise InputError(f"{output} holds a measurement already; give another --output")
    make_folder(output)  # now, and not after minutes of measuring
    for key in not_read(checked):
        typer.echo(f"ktae-lab: gradients are without the recipe's {key}", err=True)
    screen = Screen(as_json)
    model, tokenizer = load_policy(checked)
    plan = Plan(batches, reference_prompts, rows_at_once)
    with screen.others_aside(), Bars(screen.progress, lines=5) as bars:
        sampled = (model.to(device), tokenizer, checked, chosen, plan)
        measured = measure(*sampled, bars.show, checked.name)
    measured.write(output)
    table = rows(measured, checked.name, WEIGHTS)
    draw(table, checked.name, output / "align.svg")
    halves = dict(measured.about[["metric", "reliability"]].itertuples(index=False))
    for metric, words in METRICS.items():
        lines = []
        for row in (row for row in table if row.metric == metric):
            mean, low, high = row.difference
            scale = "" if row.scale is None else f"{row.scale:.3g}"
            difference = f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
            name = f"{row.estimator}, {row.mixture}"
            lines.append((name, scale, f"{row.cosine.value:.3f}", difference))
        heading = f"cosine with the reference {words} (its own halves: {halves[metric]:.2f})"
        screen.table(heading, ("credit ×", "cosine", "minus grpo (95 %)"), lines)
    screen.print(f"{COVERED}; wrote {output}")
    screen.end([row._asdict() for row in table])


def labelled(specs: Sequence[str]) -> dict[str, Estimator]:
    """The estimators of `--estimator`, by label: of `NAME`, or of `LABEL={estimator: ..., ...}`.

    Raises:
        InputError: a label is there twice, or there is no such estimator.
    """
    by_label: dict[str, Estimator] = {}
    for spec in specs:
        match = re.fullmatch(r"(.+?)=(\{.*\})", spec)
        label, section = match.groups() if match else (spec, spec)
        if label in by_label:
            raise InputError(f"--estimator names {label} twice")
        by_label[label] = resolved(from_section(parse_yaml(section, f"--estimator {spec}")))
    return by_label
