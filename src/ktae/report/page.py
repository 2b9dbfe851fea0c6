"""The page: a report's data, its style and its script in one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from ktae.errors import InputError

SCRIPTS = (
    "data.js",
    "statistics.js",
    "text.js",
    "state.js",
    "shade.js",
    "table.js",
    "card.js",
    "rollouts.js",
    "contexts.js",
    "scatter.js",
    "tokens.js",
    "permuted.js",
    "regraded.js",
    "believe.js",
    "groups.js",
    "curves.js",
    "training.js",
    "main.js",
)
"""The parts of the page's one script, in order. They share one scope and load nothing."""

RELOAD = "reload.js"
"""A further part, for a page whose file is written anew while a run goes on."""

START = "start.js"
"""The last part, which draws the page."""


def render(blocks: dict[str, str], title: str, *, reloads: bool = False) -> str:
    """The page as HTML: a file that loads nothing.

    Its content security policy names the hashes of its one script and one style sheet and allows
    nothing else: no other script, no connection, no image from elsewhere.

    Args:
        blocks: data by name, see `ktae.report.packing`.
        title: of the browser's tab and the page's head.
        reloads: whether the page loads its own file again from time to time.

    Raises:
        InputError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError:
        raise InputError(
            "a report needs jinja2, which is not installed; pip install 'ktae[report]'"
        ) from None
    files = resources.files("ktae.report") / "web"
    style = (files / "page.css").read_text(encoding="utf-8")
    names = [*SCRIPTS, *([RELOAD] if reloads else []), START]
    parts = [(files / name).read_text(encoding="utf-8") for name in names]
    script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string((files / "page.html").read_text(encoding="utf-8"))
    # The policy's expressions that allow exactly this script and this style.
    digests = [base64.b64encode(hashlib.sha256(x.encode()).digest()) for x in (script, style)]
    script_hash, style_hash = (f"'sha256-{digest.decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {script_hash}; style-src {style_hash}; "
        "img-src 'none'; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    return template.render(
        title=title, policy=policy, style=style, script=script, blocks=blocks, reloads=reloads
    )
