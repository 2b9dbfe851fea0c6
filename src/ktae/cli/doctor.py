"""`ktae doctor`: does this installation work?"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import platform
import warnings
from typing import Literal

import typer

from ktae._version import __version__
from ktae.cli.printing import Screen


def run(engine: Literal["trl", "verl"] = "trl", as_json: bool = False) -> None:
    """Check what is installed: backends, and a real training step of each TRL loss.

    With `--engine verl`: verl's own advantages, and what is missing for GPUs.

    Exit status 1 if something that is installed gives wrong results.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models are tiny: threads only wait
    from ktae.trainers.doctor import diagnose, diagnose_verl

    screen = Screen(as_json)
    versions = {"ktae": __version__, "python": platform.python_version()}
    versions["platform"] = platform.platform()
    screen.print("  ".join(f"{name} {version}" for name, version in versions.items()))
    styles = {"ok": "green", "wrong": "red", "absent": "yellow"}
    findings = []
    # TRL and transformers print while they train; the findings are all that matters here.
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        for finding in diagnose_verl() if engine == "verl" else diagnose():
            findings.append(finding)
            mark = "WRONG" if finding.status == "wrong" else finding.status
            remedy = f" → {finding.remedy}" if finding.remedy else ""
            text = f"{mark:6} {finding.subject}: {finding.detail}{remedy}"
            screen.print(text, style=styles[finding.status])
    logging.disable(logging.NOTSET)
    wrong = sum(finding.status == "wrong" for finding in findings)
    screen.print(f"{wrong} wrong" if wrong else "all that is installed works")
    screen.end(versions | {"findings": findings})
    if wrong:
        raise typer.Exit(1)
