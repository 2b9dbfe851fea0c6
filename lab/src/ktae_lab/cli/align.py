"""`ktae-lab align`: which estimator's gradient points to higher reward, on your own model."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae import recipe as recipes
from ktae.cli import options
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError
from ktae.estimators import PRESETS, Estimator, from_section, to_section
from ktae.files.atomic import make_folder
from ktae.files.typed import parse_yaml
from ktae.runs import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from ktae_lab.align.products import Alignment
    from ktae_lab.align.summary import Row

DEVICES = ("cpu", "cuda")
ESTIMATORS = (
    "paper",
    "calibrated",
    "paper, permuted labels={estimator: paper, transforms: [permuted-labels]}",
    "calibrated, permuted labels={estimator: calibrated, transforms: [permuted-labels]}",
)
"""By default: two presets, each beside its control."""


def align(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="The recipe: a YAML file with the model, task, rollouts and loss.",
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
    settings: options.RecipeSettings = None,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            metavar="[LABEL=]SPEC",
            autocompletion=options.one_of(PRESETS),
            help="Compare this estimator: a preset, or LABEL={estimator: ..., transforms: [...]}. "
            "Can be given several times [default: paper and calibrated, each with permuted labels "
            "too].",
        ),
    ] = None,
    weights: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Give the credit's gradient these norms, in multiples of GRPO's.",
        ),
    ] = "0.3,1,2",
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
    reference_blocks: Annotated[
        int,
        typer.Option(
            min=2,
            metavar="N",
            help="Cut the reference into so many parts, an even number; each takes a gradient's "
            "memory.",
        ),
    ] = 8,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=options.one_of(DEVICES),
            help="Compute and keep gradients on this device: cpu or cuda.",
        ),
    ] = "cpu",
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write the JSON and the figure to this folder.",
        ),
    ] = Path("align"),
    as_json: AsJson = False,
) -> None:
    """Compare estimators by the cosine of their gradients to the true policy gradient.

    A large sample gives a reference gradient of the expected reward; small batches of the recipe's
    size give each estimator's. No training, minutes on a small model.
    """
    from ktae.cli.progress import Bars

    checked = recipes.load(recipe, [*(keys or ()), *(settings or ())])
    chosen = labelled(estimators or ESTIMATORS)
    factors = _numbers(weights)
    if device not in DEVICES:
        raise InputError(f"--device is {device!r}; expected cpu or cuda")
    screen = Screen(as_json)
    try:
        from ktae.trainers.trl.run import load_policy
        from ktae_lab.align.measure import Plan, measure, not_read
        from ktae_lab.align.summary import draw, rows
    except ModuleNotFoundError as error:
        raise InputError(
            f"ktae-lab align needs {error.name}, which is not installed; pip install ktae-lab"
        ) from None
    plan = Plan(batches, reference_prompts, rows_at_once, reference_blocks)
    _claim(output)  # now, and not after minutes of measuring
    for key in not_read(checked):
        typer.echo(f"ktae-lab: gradients are without the recipe's {key}", err=True)
    model, tokenizer = load_policy(checked)
    model = model.to(device)
    with screen.others_aside(), Bars(screen.progress, lines=5) as bars:
        found = measure(model, tokenizer, checked, chosen, plan, bars.show)
    table = rows(found, factors)
    content = _content(checked, chosen, plan, found, table)
    write_json(output / "align.json", content)
    draw(table, found, output / "align.svg", title=f"{checked.name}: {checked.model.path}")
    _print(screen.console, found, table)
    screen.console.print(f"wrote {output}/align.json and align.svg", soft_wrap=True)
    screen.end(content)


def _claim(output: Path) -> None:
    if (output / "align.json").exists():
        raise InputError(f"{output} holds a measurement already; give another --output")
    make_folder(output)


def labelled(specs: Sequence[str]) -> dict[str, Estimator]:
    """The estimators of `--estimator`, by label: of `NAME`, or of `LABEL={estimator: ..., ...}`.

    Raises:
        InputError: a label is there twice, or there is no such estimator.
    """
    found: dict[str, Estimator] = {}
    for spec in specs:
        match = re.fullmatch(r"(.+?)=(\{.*\})", spec)
        label, section = match.groups() if match else (spec, spec)
        if label in found:
            raise InputError(f"--estimator names {label} twice")
        found[label] = from_section(parse_yaml(section, f"--estimator {spec}"))
    return found


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--weights is {text!r}; expected numbers with commas between") from None
    if not all(0 < number < float("inf") for number in numbers):
        raise InputError(f"--weights is {text!r}; expected finite numbers above 0")
    return numbers


def _content(
    recipe: recipes.Recipe,
    estimators: dict[str, Estimator],
    plan: Any,
    found: Alignment,
    table: list[Row],
) -> dict[str, Any]:
    """What `align.json` holds."""
    from ktae_lab.align.measure import not_read
    from ktae_lab.align.summary import covered
    from ktae_lab.study.provenance import machine

    return {
        "recipe": recipe.model_dump(mode="json"),
        "estimators": {name: to_section(one) for name, one in estimators.items()},
        "not_read": not_read(recipe),
        "plan": dataclasses.asdict(plan),
        "machine": machine(),
        "intervals": covered(found),
        "rows": [dataclasses.asdict(row) for row in table],
        **dataclasses.asdict(found),
    }


def _print(console: Console, found: Alignment, table: list[Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    from ktae_lab.align.summary import covered

    for metric, reliability in found.reliability.items():
        shown = Table(
            title=f"cosine with the reference gradient, {metric} "
            f"(the reference's own halves: {reliability:.2f}; accuracy {found.accuracy:.2f})"
        )
        shown.add_column("estimator", overflow="fold")
        shown.add_column("mixture", no_wrap=True)
        for column in ("credit ×", "cosine", "minus grpo (95 %)"):
            shown.add_column(column, justify="right", no_wrap=True)
        for row in (row for row in table if row.metric == metric):
            low, high = row.difference_low, row.difference_high
            shown.add_row(
                Text(row.estimator),
                row.mixture,
                "" if row.scale is None else f"{row.scale:.3g}",
                f"{row.cosine:.3f}",
                f"{row.difference:+.3f} ({low:+.3f} to {high:+.3f})",
            )
        console.print(shown)
    console.print(covered(found), soft_wrap=True)
    console.print(
        "credit ×: the factor on the estimator's credit that gives this mixture in this metric "
        "(median of the batches). It holds for this checkpoint: measure again later in training.",
        soft_wrap=True,
    )
