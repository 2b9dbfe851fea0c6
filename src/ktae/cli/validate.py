"""`ktae validate`: does credit tell held-out correct rollouts from incorrect ones?"""

from __future__ import annotations

from ktae.cli.printing import Screen, note
from ktae.cli.reading import Inputs, named
from ktae.estimators import PRESETS, preset

LEGEND = """\
held-out      share of pairs whose correct rollout gets more credit, mean over
              groups (chance: .50)
permuted      the same with labels permuted within groups: what chance gives
shorter       a baseline: the shorter rollout is called correct
majority      a baseline: the answer that more of the other rollouts give
"""


def run(
    inputs: Inputs, estimator: list[str] | None = None, before_answer: bool = False, seed: int = 0
) -> None:
    """Which estimator tells correct rollouts from incorrect ones that it has not seen?

    Of each group one correct and one incorrect rollout are left out; credit comes from the rest.
    How often does the correct one get more? `ktae permutation-test` says how much credit there is
    when labels are random.
    """
    from ktae.cli.progress import working
    from ktae.validity import held_out, prefixes
    from ktae.validity.advice import advice
    from ktae.validity.scores import COLUMNS

    chosen = {x: named(x) for x in estimator or ()} or {x: preset(x) for x in PRESETS}
    screen, dump = Screen(inputs.as_json), inputs.load()
    rollouts, keep, part = dump.rollouts, None, "whole rollouts"
    if before_answer:
        stated = prefixes.stated_answers(rollouts)
        before = prefixes.before_answer(rollouts, dump.token_ids, dump.texts, stated)
        keep, part = before.keep, "what stands before the answer"
        if before.unanswered:
            note(
                f"{before.unanswered:,} of {len(stated):,} responses state no answer; they are "
                f"cut after {100 * before.share:.0f} %, the median of the others"
            )
    vocabulary = dump.vocabulary if any(x.needs_vocabulary for x in chosen.values()) else None
    answers = prefixes.AskedAnswers(rollouts)
    with working("holding out pairs"):
        result = held_out.held_out_pairs(
            rollouts, chosen, keep=keep, answers=answers, seed=seed, vocabulary=vocabulary
        )
    advised = advice(result)
    style = "bold green" if advised.verdict == "take" else "bold yellow"
    screen.print(f"VERDICT: {advised.lines[0]}", style=style)
    looked_at, *left_out = result.counts()
    screen.print(f"{looked_at}; {part}", *left_out)
    # The estimators, best first, and below them what does without any credit.
    sides = [[(x.name, *x.cells()) for x in side] for side in (result.ranked(), result.baselines)]
    screen.table("Held-out pairs", COLUMNS, [*sides[0], None, *sides[1]])
    screen.print(*LEGEND.splitlines(), style="dim")
    screen.print(*advised.lines[1:])
    content = {"before_answer": before_answer, "unit": dump.unit, "advice": advised.as_dict()}
    screen.end(result.as_dict() | content | {"notes": dump.notes.listed()})
