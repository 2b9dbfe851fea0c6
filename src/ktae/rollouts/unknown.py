"""A row in no known form: the paths in it as a tree, and what looks like a rollout's fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import TURNS, messages_of
from ktae.rollouts.paths import leaves
from ktae.rollouts.rows import Row, is_label, is_score

NAMES = {
    name: names.split()
    for name, names in {
        "response": f"""response completion output model_output generation generated_text generated
            model_response full_model_response output_response prediction solution_str rollout
            sample code text content solution ys output_list tokens {" ".join(TURNS)}""",
        "group": """group group_id prompt_id problem_id question_id task_id example_id group_index
            prompt_index problem_idx qid doc_id unique_id problem prompt question query input
            instruction idx id pid""",
        "reward": """reward correct is_correct correctness acc accuracy score exact_match pass
            passed success is_right is_ok verdict symbolic_correct is_solved graded_list resolved
            overall_score total_reward""",
        "answer": """answer expected_answer gold_answer gt gts gold ground_truth reference
            reference_answer target solution label""",
    }.items()
}
"""Names that a field may have, in the singular, the likeliest first."""
SHOWN = 60
"""Paths in a tree."""


class UnknownRowsError(InputError):
    """A row in no known form. After the first line of the message come its paths."""


def unknown_row(row: Row, where: str, message: str, needed: Sequence[str]) -> UnknownRowsError:
    """The error of a row in no known form, which needs some of `NAMES`."""
    there = list(leaves(row))
    marks = {path: name for name in needed for path in likely_paths(there, name)}
    missing = " ".join(f"--field {name}=PATH" for name in needed)
    lines = [f"{where}: {message}; name its fields: {missing}"]
    width = max((len(path) for path, _ in there[:SHOWN]), default=0)
    for path, value in there[:SHOWN]:
        mark = f"   <- {marks[path]}?" if path in marks else ""
        lines.append(f"  {path:{width}}  {described(value)}{mark}")
    if len(there) > SHOWN:
        lines.append(f"  and {len(there) - SHOWN:,} more paths")
    return UnknownRowsError("\n".join(lines))


def likely_paths(there: Sequence[tuple[str, Any]], name: str) -> list[str]:
    """The paths of the likeliest name whose values are of the kind that such a field holds."""
    ranks: dict[str, int] = {}
    for path, value in there:
        last = path.rpartition(".")[2].removesuffix("[]").lower()
        last = last if last in NAMES[name] else last.removesuffix("s")
        first = value[0] if isinstance(value, list) and value else value
        kinds = {
            "response": isinstance(first, str) or messages_of(value) is not None,
            "group": is_label(value),
            "reward": is_score(first) and not isinstance(first, str),
        }
        if last in NAMES[name] and kinds.get(name, not isinstance(first, dict)):
            ranks[path] = NAMES[name].index(last)
    return [path for path, rank in ranks.items() if rank == min(ranks.values())]


def described(value: Any) -> str:
    """The type of a value, and an example of it."""
    if (messages := messages_of(value)) is not None and not isinstance(value, str):
        return f"{len(messages)} messages"
    if isinstance(value, list):
        return f"list of {len(value)}" + (f" of {described(value[0])}" if value else "")
    kinds = {str: "text", bool: "true or false", int: "number", float: "number"}
    shown = json.dumps(value, default=str)
    shown = shown[:47] + "..." if len(shown) > 50 else shown
    return f"{kinds.get(type(value), type(value).__name__)} {shown}"
