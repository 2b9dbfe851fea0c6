"""`ktae score`: rollouts in, token credit and the credit table out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.cli.reading import Reading, note_single_tokens, note_unmixed
from ktae.files.text import counted, number, visible
from ktae.tables import in_tables

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.report.scoring import Scores
    from ktae.report.strongest import Strongest

LEGEND = """\
right, wrong  rollouts of each kind with the token, out of those in its groups
impact        credit x |right rollouts with the token - their expected number|,
              over groups
credit        mean over groups in which the two differ (groups), weighted by
              that distance
p             within groups: exact in up to 20 and below .01, else
              Mantel-Haenszel's; identical rollouts count once; not corrected
              for picking tokens
"""
OF_SINGLE = """\
*             what a single token would get; the files' column credit is the estimator's own
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
    from ktae.report.inputs import own_tokenizer, words_of
    from ktae.report.strongest import strongest
    from ktae.rollouts.tokens import load_tokenizer

    asked = reading.asked()
    tokens_out = None if output is None else output.with_suffix(".tokens.parquet")
    written = [("--output", path, (".parquet",)) for path in (output, tokens_out)]
    options.require_outputs(reading.paths, *written)
    screen = Screen(reading.as_json)
    started = time.perf_counter()
    # Loaded once, and before the rows: it cuts them, and spells tokens in the tables.
    named = reading.tokenizer or own_tokenizer(reading.paths)
    loaded = load_tokenizer(str(named)) if named else None
    dump = reading.load(tokenizer=loaded, strict=True)
    with working("scoring") as tell:
        tell("holding out pairs", 0, None)
        choice = believing.choose(frame_of(dump), asked)
        estimator = choice.estimator
        texts = dump.vocabulary if estimator.needs_vocabulary else None
        words = words_of(dump)
        scores = scoring.score(dump.rollouts, loaded, estimator, words=words, texts=texts)
        if output is not None and tokens_out is not None:
            scoring.write(scores, output, tokens_out)
    screen.print(f"Credit of {choice.name}. {choice.advice.sentences[0]}", style="bold")
    counts = _counts(scores) | {"seconds": time.perf_counter() - started}
    screen.print(_in_words(counts, dump.unit))
    _warn(dump, scores)
    mixed = counts["groups"]["mixed"]
    if not mixed:
        note_unmixed(estimator)
    if named and scores.tokens["token"].null_count:
        note(f"warning: {named} does not know all token ids: did it make them?")
    note_single_tokens(estimator)
    strong = strongest(scores.tokens, top)
    if mixed:
        heading = f"{choice.name}, over {counted(mixed, 'mixed group')}"
        _print_strongest(screen, heading, strong, in_tables(estimator) == estimator)
    if output is None:
        screen.next("ktae", "score", *reading.paths, "-o", "scores.parquet")
    else:
        screen.print(f"wrote {output} and {tokens_out}")
        screen.next("ktae", "report", *reading.paths)
    screen.end(
        {
            **counts,
            "advice": choice.advice,
            "notes": dump.notes.listed(),
            "unit": dump.unit,
            "estimator": scoring.described(estimator),
            "output": output and {"rollouts": output, "tokens": tokens_out},
            "strongest": strong,
        }
    )


def _warn(dump: Dump, scores: Scores) -> None:
    """Say on stderr where a group holds one rollout, or rollouts of several models."""
    if single := sum(group.rollouts == 1 for group in scores.groups):
        of = counted(len(scores.groups), "group")
        note(f"warning: {single:,} of {of} have one rollout; its credit is 0")
    models = dump.rollouts.group_by(["group", "step"]).aggregate([("model", "count_distinct")])
    n = models["model_count_distinct"].to_numpy().max(initial=0)
    if n > 1:
        note(
            f"groups mix up to {n:,} models; a token may only identify the stronger one "
            "(--by-model separates them)"
        )


def _counts(scores: Scores) -> dict[str, Any]:
    """How many rollouts, groups and tokens there are."""
    import pyarrow.compute as pc

    sides = [(group.n_true > 0, group.n_false > 0) for group in scores.groups]
    return {
        "rollouts": len(scores.record),
        "unknown_correctness": scores.record["correct"].null_count,
        "groups": {
            "all": len(sides),
            "mixed": sides.count((True, True)),
            "all_right": sides.count((True, False)),
            "all_wrong": sides.count((False, True)),
            "undecided": sides.count((False, False)),
        },
        "tokens": pc.sum(pc.list_value_length(scores.record["token_ids"])).as_py(),
    }


def _in_words(counts: dict[str, Any], unit: str) -> str:
    unknown, groups = counts["unknown_correctness"], counts["groups"]
    kinds = ", ".join(
        f"{n:,} {kind.replace('_', ' ')}"
        for kind, n in groups.items()
        if kind != "all" and (n or kind != "undecided")
    )
    return (
        counted(counts["rollouts"], "rollout")
        + (f" ({unknown:,} of unknown correctness)" if unknown else "")
        + f", {counted(groups['all'], 'group')} ({kinds}), {counts['tokens']:,} "
        f"{'words' if unit == 'words' else 'tokens'}, {counts['seconds']:.1f} s"
    )


def _print_strongest(
    screen: Screen, heading: str, strongest: Strongest, is_of_single: bool
) -> None:
    """The tokens in favour, a blank line, and those against.

    The table is of single tokens. Where the estimator is of larger units, their credit is another
    one than the file's, and a star says so.
    """
    from ktae.inference import P_VALUE_FLOOR

    star = "" if is_of_single else "*"
    rows: list[tuple[str, ...] | None] = []
    for tokens in strongest:
        for token in tokens:
            # Exact p-values may be tiny: below the floor nothing is told apart any more.
            p = f"{token.p_value:.3f}" if token.p_value >= 0.001 else f"{token.p_value:.0e}"
            rows.append(
                (
                    visible(token.token or ""),
                    str(token.token_id),
                    number(token.impact, "+z.2f"),
                    number(token.credit, "+z.3f"),
                    f"{token.a}/{token.n_true}",
                    f"{token.b}/{token.n_false}",
                    f"<{P_VALUE_FLOOR:.0e}" if token.p_value <= P_VALUE_FLOOR else p,
                    str(token.groups),
                )
            )
        rows.append(None)
    columns = ("id", "impact", f"credit{star}", "right (a)", "wrong (b)", "p", "groups")
    screen.table(heading, columns, rows, first="token")
    screen.print(*(LEGEND + (OF_SINGLE if star else "")).splitlines(), style="dim")
