"""`ktae score`: rollouts in, token credit and the credit table out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading, note_single_tokens, note_unmixed
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


@options.spread
def score(
    reading: Reading,
    output: Annotated[
        Path | None,
        options.output_option(
            help="A .parquet file for one row a rollout. The credit table goes beside it, to "
            "*.tokens.parquet. Without it nothing is written.",
        ),
    ] = None,
    top: Annotated[int, options.number(min=1, help="Tokens shown for, and against.")] = 10,
) -> None:
    """Score rollouts: which tokens speak for a correct answer, and which against it."""
    from ktae.cli.progress import working
    from ktae.report import believing, scoring
    from ktae.report.frame import frame_of
    from ktae.rollouts.groups import require_comparable

    asked = reading.asked()
    tokens_out = None if output is None else output.with_suffix(".tokens.parquet")
    written = [("--output", path, (".parquet",)) for path in (output, tokens_out)]
    options.require_outputs(reading.paths, *written)
    screen, started = Screen(reading.as_json), time.perf_counter()
    dump = reading.load(strict=True)
    frame = frame_of(dump)
    require_comparable(frame.group_b)
    with working("scoring") as tell:
        tell("holding out pairs", 0, None)
        choice = believing.choose(frame, asked)
        tell("scoring", 0, None)
        scored = scoring.score(frame, choice.estimator)
        if output is not None and tokens_out is not None:
            scoring.write(frame, scored, output, tokens_out)
    strongest = scoring.strongest(frame, scored, top)
    screen.print(f"Credit of {choice.name}. {choice.advice.sentences[0]}", style="bold")
    counts = _counts(frame) | {"seconds": time.perf_counter() - started}
    _print_counts(screen, counts, dump.word)
    _warn(frame)
    if mixed := counts["groups"]["mixed"]:
        rows = [*map(_cells, strongest.supporting), None, *map(_cells, strongest.opposing), None]
        columns = ("id", "impact", "credit", "correct (a)", "incorrect (b)", "p", "groups")
        heading = f"{choice.name}, over {counted(mixed, 'mixed group')}"
        screen.table(heading, columns, rows, first=dump.word)
        screen.print(*LEGEND.splitlines(), style="dim")
    else:
        note_unmixed(choice.estimator)
    if output is None:
        screen.next("ktae", "score", *reading.paths, *reading.flags(), "-o", "scores.parquet")
    else:
        note_single_tokens(choice.estimator)  # the table may show less than the credit
        screen.print(f"wrote {output} and {tokens_out}")
        screen.next("ktae", "report", *reading.paths, *reading.flags())
    screen.end(
        {
            **counts,
            "advice": choice.advice,
            "notes": dump.notes.listed(),
            "unit": dump.unit,
            "estimator": scoring.described(choice.estimator),
            "output": output and {"rollouts": output, "tokens": tokens_out},
            "strongest": strongest,
        }
    )


def _counts(frame: Frame) -> dict[str, Any]:
    """How many rollouts, groups and tokens there are."""
    has_token = frame.counted_b > 0
    correct, incorrect = (
        frame.sum_rollouts(has_token & (frame.correct_b == x)) > 0 for x in (1, 0)
    )
    kinds = {
        "mixed": correct & incorrect,
        "all_correct": correct & ~incorrect,
        "all_incorrect": incorrect & ~correct,
        "undecided": ~correct & ~incorrect,
    }
    return {
        "rollouts": len(frame.group_b),
        "unknown_correctness": int((~frame.known_b).sum()),
        "groups": {"all": len(correct)} | {name: int(x.sum()) for name, x in kinds.items()},
        "tokens": len(frame.which_n),
    }


def _print_counts(screen: Screen, counts: dict[str, Any], word: str) -> None:
    unknown, groups = counts["unknown_correctness"], counts["groups"]
    kinds = ", ".join(
        f"{n:,} {kind.replace('_', ' ')}"
        for kind, n in groups.items()
        if kind != "all" and (n or kind != "undecided")
    )
    screen.print(
        counted(counts["rollouts"], "rollout")
        + (f" ({unknown:,} of unknown correctness)" if unknown else "")
        + f", {counted(groups['all'], 'group')} ({kinds}), {counted(counts['tokens'], word)}, "
        f"{counts['seconds']:.1f} s"
    )


def _warn(frame: Frame) -> None:
    """Say on stderr what makes tokens hard to read."""
    if single := int((frame.sizes_g == 1).sum()):
        of = counted(len(frame.sizes_g), "group")
        note(f"warning: {single:,} of {of} have one rollout; its credit is 0")
    models = frame.rollouts.group_by(["group", "step"]).aggregate([("model", "count_distinct")])
    n = models["model_count_distinct"].to_numpy().max(initial=0)
    if n > 1:
        note(f"groups mix up to {n:,} models; a token may only identify the stronger one")
    if frame.dump.unit == "tokens" and None in frame.dump.texts:
        note("warning: the tokenizer does not know all token ids: did it make them?")


def _cells(token: KeyToken) -> tuple[str, ...]:
    """A token's row."""
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
