"""The options that several commands have, and their checks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ktae.errors import InputError
from ktae.estimators import KINDS, PRESETS, Estimator, from_section, to_section


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell offers for an option that takes one of these names."""
    known = tuple(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT",
        help="Files or folders with rollouts: run folders of ktae train; dumps of TRL, verl, "
        "OpenRLHF, slime, NeMo-RL, verifiers, lm-evaluation-harness or lighteval; any .jsonl, "
        ".json or .parquet file (also .gz).",
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        metavar="PATH_OR_NAME",
        help="Take this tokenizer: a folder, or a name on the Hugging Face hub. A run folder "
        "brings its own. Without a tokenizer, texts are cut at words.",
    ),
]
EstimatorName = Annotated[
    str | None,
    typer.Option(
        "--estimator",
        "-e",
        metavar="NAME",
        autocompletion=one_of(PRESETS | KINDS),
        help=f"Compute credit with this estimator: {', '.join(PRESETS | KINDS)}, or a recipe's "
        "section such as '{estimator: ktae, h3: 0}' [default: the run's, or else paper].",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Replace one of the estimator's settings, such as h3=0, or wrap the estimator in "
        "'transforms=[centred, {scaled: 2}]'. Can be given several times.",
    ),
]
RecipeKeys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Replace keys of the recipe, such as seed=1 credit.h3=0 credit=null.",
    ),
]
RecipeSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Replace a key of the recipe, such as seed=1 or credit.h3=0. Can be given several "
        "times.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="REWARD",
        help="Where there is no verdict, count a rollout as correct if its reward is above this "
        "[default: 0].",
    ),
]
Correctness = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Take this one of several rewards or metrics as the one that says what is correct.",
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        "-f",
        metavar="NAME=PATH",
        help="Say where a field is in a row, such as response=output or reward=scores.acc. Can be "
        "given several times.",
    ),
]
PoolModelsOfSaved = Annotated[
    bool,
    typer.Option(
        "--pool-models/--by-model",
        help="Compare outputs of all models, or only those of the same model.",
    ),
]
PoolModels = Annotated[
    bool | None,
    typer.Option(
        "--pool-models/--by-model",
        help="Compare rollouts of all models, or only those of the same model [default: by model, "
        "unless most rollouts would be alone].",
        show_default=False,
    ),
]
MaxResponse = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Refuse responses of more characters than this [default: 2,000,000].",
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to this file what --json would print."
    ),
]


def require_folder(option: str, path: Path | None) -> None:
    """Raise an InputError, before any work, where a file that an option names has no folder."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f"{option} {path}: folder {path.parent} does not exist")


def require_outputs(inputs: Iterable[Path], *outputs: tuple[str, Path | None]) -> None:
    """Raise an InputError, before any work, for a file that cannot be written or that is read.

    Args:
        inputs: files and folders with rollouts.
        outputs: options, and the files that they name.
    """
    from ktae.rollouts.folders import choose_files

    if all(path is None for _, path in outputs):
        return  # a folder of many files takes time to look through
    read = {os.path.realpath(file) for path in inputs for file in choose_files(path)[0]}
    for option, path in outputs:
        require_folder(option, path)
        if path is not None and os.path.realpath(path) in read:
            raise InputError(f"{option} would overwrite {path}, which is one of the inputs")


def require_picture(option: str, path: Path | None) -> None:
    """Raise an InputError for a name that says no format of pictures, or if none can be drawn."""
    if path is None:
        return
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"{option} {path}: expected a name that ends in .png or .svg")
    if find_spec("matplotlib") is None:
        raise InputError(
            f"{option} {path}: a picture needs matplotlib, which is not installed; "
            f"pip install matplotlib, or leave out {option}"
        )


def estimator_of(
    name: str | None, settings: Sequence[str] | None, inputs: Sequence[Path] = ()
) -> Estimator | None:
    """The estimator that was asked for; None where none was.

    Without a name, `settings` replace those of the run in `inputs`, or the paper's.

    Raises:
        InputError: there is no such estimator, or it needs what no dump holds.
    """
    from ktae.report import inputs as reading

    if name is None and not settings:
        return None
    own = reading.trained_with(inputs) if name is None else None
    section = section_of(name) if name is not None else to_section(own) if own else "paper"
    found = with_settings(section, settings)
    if name is not None and found.needs_policy:
        _refuse_policy(name, found)
    return found


def section_of(text: str) -> Any:
    """What `--estimator` says: a name, or a recipe's section such as `{estimator: ktae, h3: 0}`."""
    from ktae.files.typed import parse_yaml

    return text if text in PRESETS | KINDS else parse_yaml(text, f"--estimator {text}")


def _refuse_policy(name: str, estimator: Estimator) -> None:
    from ktae.credit import POLICY

    needs = " and the ".join(POLICY[need] for need in sorted(estimator.needs_policy))
    raise InputError(
        f"--estimator {name} needs the {needs} of each token, which dumps of rollouts do not hold; "
        "in Python, ktae.token_credit takes them"
    )


def with_settings(section: Any, settings: Sequence[str] | None) -> Estimator:
    """The estimator of a recipe's section, its settings replaced; `transforms` wrap it."""
    if not settings or not isinstance(section, str | Mapping):
        return from_section(section)
    base = {"estimator": section} if isinstance(section, str) else section
    given = overrides(settings)
    own, more = base.get("transforms") or [], given.pop("transforms", None)
    own, more = ([x] if isinstance(x, str | dict) else x for x in (own, more))
    if isinstance(more, list):
        given["transforms"] = [*own, *more]
    elif more is not None:
        given["transforms"] = more  # from_section says what is wrong
    return from_section({**base, **given})


def fields_of(given: Sequence[str] | None) -> dict[str, str]:
    """What `--field` says, as {"response": "output"}."""
    from ktae.rollouts.schemas.nested import parse_fields

    return parse_fields(given or [])


def overrides(settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """`h3=0` as {"h3": 0}: the value is JSON, or else YAML as in a recipe.

    JSON comes first because YAML 1.1 takes 1e-3 for text.
    """
    from ktae.files.typed import parse_yaml

    overrides: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise InputError(f"{option} {setting}: expected KEY=VALUE, such as h3=0")
        try:
            overrides[key] = json.loads(text)
        except (ValueError, RecursionError):
            overrides[key] = parse_yaml(text, f"{option} {setting}")
    return overrides
