"""`ktae doctor`: does this installation work?"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from ktae.cli.printing import AsJson, as_text

if TYPE_CHECKING:
    from ktae.trainers.doctor import Finding


def doctor(
    as_json: AsJson = False,
) -> None:
    """Check backends and engines on this machine: a real training step of each TRL loss included.

    Exit status 1 if something that is installed gives wrong results.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models are tiny: threads only wait
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from rich.console import Console
    from rich.markup import escape

    from ktae._version import __version__
    from ktae.trainers.doctor import diagnose

    console = Console(highlight=False, quiet=as_json, soft_wrap=True)
    versions = {
        "ktae": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    console.print("  ".join(f"{name} {version}" for name, version in versions.items()))
    marks = {"ok": "[green]ok    [/]", "wrong": "[red]WRONG [/]", "absent": "[yellow]absent[/]"}
    findings = []
    # TRL and transformers print while they train; the findings are all that matters here.
    with console.status("looking"):
        for finding in _quietly(diagnose()):
            findings.append(finding)
            remedy = f" → {finding.remedy}" if finding.remedy else ""
            text = escape(f"{finding.subject}: {finding.detail}{remedy}")
            console.print(f"{marks[finding.status]} {text}")
    wrong = [finding for finding in findings if finding.status == "wrong"]
    if as_json:
        typer.echo(as_text(versions | {"findings": findings}))
    console.print(f"{len(wrong)} wrong" if wrong else "all that is installed works")
    if wrong:
        sys.exit(1)


def _quietly(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding, with what libraries print in between held back."""
    iterator = iter(findings)
    while True:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            logging.disable(logging.WARNING)
            try:
                finding = next(iterator)
            except StopIteration:
                return
            finally:
                logging.disable(logging.NOTSET)
        yield finding
