"""`ktae report`: rollouts in, one HTML file out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading, note_reading
from ktae.files.text import counted

if TYPE_CHECKING:
    from ktae.report.data import Place
    from ktae.report.inputs import Dump

MOST_LISTED = 50  # responses that JSON lists of a finding
MOST_PRINTED = 5  # findings that the terminal shows
STYLES = {"bad": "bold red", "warn": "bold yellow", "good": "bold green"}


def run(
    reading: Reading,
    output: Path = Path("report.html"),
    max_tokens: int = 6_000_000,
    regrade: bool = True,
) -> None:
    """Explain a rollout dump: one HTML file that needs no network and no server."""
    from ktae.cli.progress import working
    from ktae.report.page import write_report

    asked = reading.asked()
    options.require_output(output, reading.paths, (".html", ".htm"))
    started, replaced = time.perf_counter(), output.exists()
    with working("reading", reading.paths) as tell:
        how: dict[str, Any] = {"max_tokens": max_tokens, "regrade": regrade, "tell": tell}
        dump = write_report(reading.paths, output, reading.how, estimator=asked, **how)
    note_reading(dump.notes)
    groups, (shown, n) = dump.page.groups, dump.shown
    if not any(0 < x < y for x, y in zip(groups.n_correct, groups.known, strict=True)):
        note("warning: no group has both correct and incorrect responses, so all credit is 0")
    if shown < n:
        note(f"{shown:,} of {n:,} groups are in the page; its numbers over groups are of all")
    seconds, size = time.perf_counter() - started, output.stat().st_size
    screen = Screen(reading.as_json)
    first, *others = dump.page.findings
    screen.print(f"{first.sentence}.", style=STYLES.get(first.tone, "bold"))
    screen.print(f"  How sure: {first.sure}. {first.about}")
    screen.print(*(f"- {finding.sentence}." for finding in others[: MOST_PRINTED - 1]))
    advice = dump.page.advice.sentences[0]
    screen.print(f"Colours show the credit of {dump.page.estimator}. {advice}")
    screen.print(
        f"{counted(len(dump.rollouts), 'rollout')} in {seconds:.1f} s; wrote {output} "
        f"({size / 1e6:.1f} MB{', in place of the one that was there' if replaced else ''})"
    )
    screen.end(_as_dict(dump) | {"seconds": seconds, "output": output, "bytes": size})


def _as_dict(dump: Dump) -> dict[str, object]:
    """For JSON: what the page says first, and what was read."""
    names = ("key", "tone", "sentence", "sure", "about", "count")
    groups = dump.page.groups
    group_b = np.repeat(np.arange(len(groups.size)), groups.size)
    # The page holds the responses of some groups, in the dump's order.
    row_p = np.flatnonzero(np.array(groups.shown)[group_b]).tolist()

    def response(place: Place) -> dict[str, object]:
        """As `ktae show` names it, and the token to look at."""
        row = row_p[place.row]
        return {
            "group": dump.rollouts["group"][row].as_py(),
            "step": dump.rollouts["step"][row].as_py(),
            "rollout": int(row - np.searchsorted(group_b, group_b[row])) + 1,
            "tokens": None if place.token < 0 else [place.token, place.token + 1],
        }

    return {
        "version": dump.page.version,
        "rollouts": len(dump.rollouts),
        "groups": {"all": dump.shown[1], "shown": dump.shown[0]},
        "estimator": dump.page.estimator,
        "findings": [
            {x: getattr(finding, x) for x in names}
            | {"responses": [*map(response, finding.places[:MOST_LISTED])]}
            for finding in dump.page.findings
        ],
        "advice": dump.page.advice,
        "comparisons": dump.page.comparisons,
        "page_notes": [note for note in dump.page.notes if note["kind"] == "page"],
        "notes": dump.notes.listed(),
        "left_out": dump.notes.counts["rejected"],
        "unit": dump.unit,
    }
