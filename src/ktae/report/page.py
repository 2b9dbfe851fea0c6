"""The page: rollouts in; their data, a style and a script out, in one file that loads nothing."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from importlib import resources
from pathlib import Path
from typing import Any

from ktae.credit import AnEstimator
from ktae.errors import passed_on
from ktae.files.atomic import atomic_write
from ktae.report import inputs, sampling
from ktae.report.contents import contents
from ktae.rollouts.options import DEFAULT, ReadOptions


def write_report(
    rollouts: Any,
    out: str | Path,
    options: ReadOptions = DEFAULT,
    *,
    estimator: AnEstimator | None = None,
    max_tokens: int = sampling.MAX_TOKENS,
    regrade: bool = True,
    tell: inputs.ProgressCallback = lambda phase, done, total: None,
) -> inputs.Dump:
    """Write one self-contained HTML file that explains every token's value.

    Args:
        rollouts: a file or folder or a sequence of them (a run folder, a trainer's dump, JSON
            Lines, JSON, Parquet: see `ktae.rollouts.readers`), or whatever `ktae.score` takes.
        out: the file; it is replaced whole or not at all.
        options: how files are read, and the tokenizer; a table in memory takes that and the
            threshold.
        estimator: by default the one that held-out pairs advise, else
            `ktae.validity.advice.RECOMMENDED`.
        max_tokens: bound on the response tokens in the page; above it whole groups are left out by
            `ktae.report.sampling`, and the page says so.
        regrade: whether to grade rollouts that have a reference answer: where no row has a reward
            that is the verdict, elsewhere the page lists where the dump's differs
            (`ktae.report.regrading`).
        tell: is told what is being done, how much of it is, and of how much (None: not known).

    Returns:
        What was read; `shown` says how much of it is in the page.

    Raises:
        InputError: nothing could be read, or `out` cannot be written.
    """
    dump = inputs.dump_of(rollouts, options)
    page = contents(dump, estimator, max_tokens=max_tokens, regrade=regrade, tell=tell)
    names = ", ".join(Path(name).name for name in dump.names)
    text = render(page.blocks, f"ktae report: {names or 'rollouts'}")
    # The page is whole in memory before the old file is touched.
    with atomic_write(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return dataclasses.replace(dump, shown=page.shown, page=page.page)


def render(blocks: dict[str, str], title: str) -> str:
    """The page as HTML of these data (`ktae.report.data`): a file that loads nothing.

    Its content security policy names the hashes of its one script and one style sheet and allows
    nothing else: no other script, no connection, no image from elsewhere.
    """
    with passed_on("the report", install="pip install 'ktae[report]'"):
        from jinja2 import Environment, StrictUndefined
    folder = resources.files("ktae.report") / "web"
    files = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    style, template, last = (files.pop(name) for name in ("page.css", "page.html", "main.js"))
    # The parts of the script share one scope; the last one draws the page.
    parts = (files[name] for name in sorted(files))
    script = "\n".join(['"use strict";\n(() => {', *parts, last, "})();\n"])
    # The policy's expressions that allow exactly this script and this style.
    digests = [base64.b64encode(hashlib.sha256(x.encode()).digest()) for x in (script, style)]
    script_hash, style_hash = (f"'sha256-{digest.decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {script_hash}; style-src {style_hash}; "
        "img-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(template).render(
        title=title, policy=policy, style=style, script=script, blocks=blocks
    )
