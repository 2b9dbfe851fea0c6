"""`ktae score`: rollouts in, token credit out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading
from ktae.files.text import counted, number, visible

if TYPE_CHECKING:
    from ktae.report.scoring import KeyToken

LEGEND = """\
correct, incorrect  responses with the token, out of those in its groups
impact              credit x |correct responses with the token - their expected
                    number|, over groups; credit is the mean, weighted by that
"""


def run(reading: Reading, output: Path | None = None, top: int = 10) -> None:
    """Score rollouts: which tokens speak for a correct answer, and which against it."""
    from ktae.cli.progress import working
    from ktae.report import believing, scoring
    from ktae.report.frame import frame_of
    from ktae.rollouts.groups import require_comparable

    asked = reading.asked()
    options.require_output(output, reading.paths, (".parquet",))
    screen, dump = Screen(reading.as_json), reading.load(strict=True)
    frame = frame_of(dump)
    require_comparable(frame.group_b)
    with working("holding out pairs") as tell:
        choice = believing.choose(frame, asked)
        tell("scoring", 0, None)
        scored = scoring.score(frame, choice.estimator)
        if output is not None:
            scoring.write(frame, scored, output)
    supporting, opposing = scoring.strongest(frame, scored, top)
    screen.print(f"Credit of {choice.name}. {choice.advice.sentences[0]}", style="bold")
    unknown = int((~frame.known_b).sum())
    # 0 to 3: a correct response makes 2, an incorrect one 1.
    names = ("undecided", "all_incorrect", "all_correct", "mixed")
    n_groups = np.bincount(2 * frame.have(1) + frame.have(0), minlength=4).tolist()
    groups = dict(zip(names[::-1], n_groups[::-1], strict=True))
    kinds = ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in groups.items() if n)
    screen.print(
        f"{counted(len(frame.group_b), 'rollout')} ({unknown:,} of unknown correctness), "
        f"{counted(sum(groups.values()), 'group')} ({kinds}), "
        f"{counted(len(frame.which_n), dump.word)}"
    )
    if dump.unit == "tokens" and None in dump.texts:
        note("warning: the tokenizer does not know all token ids: did it make them?")
    if groups["mixed"]:
        rows = [*map(_cells, supporting), None, *map(_cells, opposing)]
        columns = ("id", "impact", "credit", "correct (a)", "incorrect (b)", "groups")
        heading = f"{choice.name}, over {counted(groups['mixed'], 'mixed group')}"
        screen.table(heading, columns, rows, first=dump.word)
        screen.print(*LEGEND.splitlines(), style="dim")
    else:
        zero = "" if choice.estimator.takes_scores else ", so all credit is 0"
        note(f"warning: no group has both correct and incorrect rollouts{zero}")
    if output is not None:
        screen.print(f"wrote {output}")
    content = {
        "rollouts": len(frame.group_b),
        "unknown_correctness": unknown,
        "groups": {"all": sum(groups.values())} | groups,
        "tokens": len(frame.which_n),
        "advice": choice.advice,
        "notes": dump.notes.listed(),
        "unit": dump.unit,
        "estimator": scoring.described(choice.estimator),
        "output": output,
        "strongest": {"supporting": supporting, "opposing": opposing},
    }
    screen.end(content)


def _cells(token: KeyToken) -> tuple[str, ...]:
    return (
        visible(token.token or ""),
        str(token.token_id),
        number(token.impact, "+z.2f"),
        number(token.credit, "+z.3f"),
        f"{token.a}/{token.n_correct}",
        f"{token.b}/{token.n_incorrect}",
        str(token.groups),
    )
