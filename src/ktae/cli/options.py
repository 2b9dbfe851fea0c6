"""How commands get their options (`options.toml`), and the check of their outputs."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import inspect
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ktae.errors import InputError
from ktae.files.plots import KINDS as PICTURE

# What typer is told of each parameter of a command, by the command's name and the parameter's.
TEXTS = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


def declared(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: each parameter, and each field of a parameter that is a
    dataclass, is an option or argument as in `TEXTS`."""
    own = inspect.signature(command, eval_str=True).parameters
    groups = {x: own[x].annotation for x in own if dataclasses.is_dataclass(own[x].annotation)}
    parameters = [own[x] for x in own if x not in groups]
    for group in groups.values():
        parameters += inspect.signature(group, eval_str=True).parameters.values()
    texts = TEXTS["all"] | TEXTS.get(name, {})
    options = []
    for parameter in parameters:
        text = texts[parameter.name]
        settings = {"help": text} if isinstance(text, str) else dict(text)
        make: Any = typer.Argument if settings.pop("argument", False) else typer.Option
        # A flag that is off has no `--no-`.
        flag = [f"--{parameter.name.replace('_', '-')}"] if parameter.default is False else []
        names = settings.pop("names", flag)
        panel = "Rarely needed" if settings.pop("rare", False) else None
        kind: Any = parameter.annotation
        kind = Annotated[kind, make(*names, rich_help_panel=panel, **settings)]
        options.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kind))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for place, group in groups.items():
            values[place] = group(**{x.name: values.pop(x.name) for x in dataclasses.fields(group)})
        command(**values)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def require_output(
    path: Path | None, inputs: Iterable[Path] = (), endings: Sequence[str] = PICTURE
) -> None:
    """Raise an InputError, before any work, for an --output that cannot be written or is read.

    Args:
        path: the file; None: nothing is written.
        inputs: files and folders with rollouts.
        endings: how its name may end.
    """
    from ktae.rollouts.files import choose_files

    if path is None:
        return
    if path.suffix not in endings or not path.parent.is_dir():
        expected = f"expected a name that ends in {', '.join(endings)}, in a folder that exists"
        raise InputError(f"--output {path}: {expected}")
    read = (file for folder in inputs for file in choose_files(spooled(folder))[0])
    if os.path.realpath(path) in map(os.path.realpath, read):
        raise InputError(f"--output would overwrite {path}, which is one of the inputs")
    if path.suffix in PICTURE and find_spec("matplotlib") is None:
        raise InputError(f"--output {path}: needs matplotlib; pip install matplotlib")


@functools.cache
def spooled(path: Path) -> Path:
    """For `-` a file of what standard input holds, as readers look twice; other paths as is."""
    if str(path) != "-":
        return path
    folder = tempfile.mkdtemp(prefix="ktae-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with Path(folder, "stdin.jsonl").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(folder, "stdin.jsonl")
