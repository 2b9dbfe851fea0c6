"""`ktae score`: rollouts in, token credit and the credit table out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading, note_single_tokens
from ktae.files.text import counted, number, visible

if TYPE_CHECKING:
    from ktae.report.frame import Frame
    from ktae.report.scoring import KeyToken

LEGEND = """\
correct, incorrect  responses with the token, out of those in its groups
impact              credit x |correct responses with the token - their expected
                    number|, over groups; credit is the mean, weighted by that
p                   within groups; identical responses count once; not corrected
                    for picking tokens
"""


def run(reading: Reading, output: Path | None = None, top: int = 10) -> None:
    """Score rollouts: which tokens speak for a correct answer, and which against it."""
    from ktae.cli.progress import working
    from ktae.report import believing, scoring
    from ktae.report.frame import frame_of
    from ktae.rollouts.groups import require_comparable

    asked = reading.asked()
    tokens_output = output and output.with_suffix(".tokens.parquet")
    for path in (output, tokens_output):
        options.require_output(path, reading.paths, (".parquet",))
    screen, dump = Screen(reading.as_json), reading.load(strict=True)
    frame = frame_of(dump)
    require_comparable(frame.group_b)
    with working("holding out pairs") as tell:
        choice = believing.choose(frame, asked)
        tell("scoring", 0, None)
        scored = scoring.score(frame, choice.estimator)
        if output is not None and tokens_output is not None:
            scoring.write(frame, scored, output, tokens_output)
    strongest = scoring.strongest(frame, scored, top)
    screen.print(f"Credit of {choice.name}. {choice.advice.sentences[0]}", style="bold")
    groups, unknown = _groups(frame), int((~frame.known_b).sum())
    kinds = ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in groups.items() if n)
    screen.print(
        f"{counted(len(frame.group_b), 'rollout')} ({unknown:,} of unknown correctness), "
        f"{counted(sum(groups.values()), 'group')} ({kinds}), "
        f"{counted(len(frame.which_n), dump.word)}"
    )
    if dump.unit == "tokens" and None in dump.texts:
        note("warning: the tokenizer does not know all token ids: did it make them?")
    if groups["mixed"]:
        rows = [*map(_cells, strongest.supporting), None, *map(_cells, strongest.opposing)]
        columns = ("id", "impact", "credit", "correct (a)", "incorrect (b)", "p", "groups")
        heading = f"{choice.name}, over {counted(groups['mixed'], 'mixed group')}"
        screen.table(heading, columns, rows, first=dump.word)
        screen.print(*LEGEND.splitlines(), style="dim")
    else:
        zero = "" if choice.estimator.takes_scores else ", so all credit is 0"
        note(f"warning: no group has both correct and incorrect rollouts{zero}")
    if output is not None:
        note_single_tokens(choice.estimator)  # the table may show less than the credit
        screen.print(f"wrote {output} and {tokens_output}")
    screen.end(
        {
            "rollouts": len(frame.group_b),
            "unknown_correctness": unknown,
            "groups": {"all": sum(groups.values())} | groups,
            "tokens": len(frame.which_n),
            "advice": choice.advice,
            "notes": dump.notes.listed(),
            "unit": dump.unit,
            "estimator": scoring.described(choice.estimator),
            "output": output and {"rollouts": output, "tokens": tokens_output},
            "strongest": strongest,
        }
    )


def _groups(frame: Frame) -> dict[str, int]:
    """How many groups there are of each kind."""
    correct, incorrect = (
        frame.sum_rollouts((frame.counted_b > 0) & (frame.correct_b == x)) > 0 for x in (1, 0)
    )
    kinds = {
        "mixed": correct & incorrect,
        "all_correct": correct & ~incorrect,
        "all_incorrect": incorrect & ~correct,
        "undecided": ~correct & ~incorrect,
    }
    return {name: int(is_kind_g.sum()) for name, is_kind_g in kinds.items()}


def _cells(token: KeyToken) -> tuple[str, ...]:
    from ktae.inference import P_VALUE_FLOOR

    # Exact p-values may be tiny: below the floor nothing is told apart any more.
    p = f"{token.p_value:.3f}" if token.p_value >= 0.001 else f"{token.p_value:.0e}"
    return (
        visible(token.token or ""),
        str(token.token_id),
        number(token.impact, "+z.2f"),
        number(token.credit, "+z.3f"),
        f"{token.a}/{token.n_correct}",
        f"{token.b}/{token.n_incorrect}",
        f"<{P_VALUE_FLOOR:.0e}" if token.p_value <= P_VALUE_FLOOR else p,
        str(token.groups),
    )
