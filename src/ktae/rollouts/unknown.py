"""A row in no known form: the paths in it as a tree, what looks like a rollout's fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import TURNS, dialogue, messages_of, segments
from ktae.rollouts.paths import leaves
from ktae.rollouts.rows import Row

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

Try = Callable[[dict[str, str]], bool]


class UnknownRowsError(InputError):
    """A row in no known form. After the first line of the message come its paths."""


def unknown_row(
    row: Row, where: str, message: str, needed: Sequence[str], reads: Try
) -> UnknownRowsError:
    """The error of a row in no known form.

    Args:
        row: as it was read.
        where: the place of it.
        message: what is missing.
        needed: keys of `NAMES`.
        reads: whether the row becomes rollouts with these fields; told only if it does.
    """
    there = list(leaves(row))
    likely = likely_paths(there, needed)
    # A conversation has its prompt in it, which tells its group.
    talk = dialogue(segments(messages_of(dict(there).get(likely.get("response", ""))) or ()))
    if talk is not None and talk.prompt is not None and "group" in needed:
        needed = [name for name in needed if name != "group"]
        likely.pop("group", None)
    missing = [f"--field {name}={likely.get(name, 'PATH')}" for name in needed]
    complete = len(likely) == len(needed) and reads(likely)
    if not complete:
        missing = [f"--field {name}=PATH" for name in needed]
    lines = [f"{where}: {message}; name its fields: {' '.join(missing)}"]
    marks = {path: name for name, path in likely.items()}
    shown = there[:SHOWN]
    width = max((len(path) for path, _ in shown), default=0)
    for path, value in shown:
        mark = f"   <- {marks[path]}?" if path in marks else ""
        lines.append(f"  {path:{width}}  {described(value)}{mark}")
    if len(there) > SHOWN:
        lines.append(f"  and {len(there) - SHOWN:,} more paths")
    if complete:
        lines.append("The row is read with these options; look whether they say what is meant.")
    return UnknownRowsError("\n".join(lines))


def likely_paths(there: Sequence[tuple[str, Any]], needed: Sequence[str]) -> dict[str, str]:
    """By field, the path whose name and value look like it, if there is one."""
    path_of: dict[str, str] = {}
    for name in needed:
        of_entry = "".join(path_of.get("response", "").rpartition("[]")[:2])
        ranked = []
        for i, (path, value) in enumerate(there):
            inside, _, last = path.rpartition(".")
            lists = "".join(path.rpartition("[]")[:2])
            last = last.removesuffix("[]").lower()
            last = last if last in NAMES[name] else last.removesuffix("s")
            # Of one entry belongs what lies in it, or in what holds it.
            is_beside = of_entry.startswith(lists) and inside in ("", lists)
            fits = not path_of or of_entry == lists or is_beside
            if path not in path_of.values() and last in NAMES[name] and fits and holds(name, value):
                nearness = 0 if name == "response" else -lists.count("[]")
                ranked.append((nearness, NAMES[name].index(last), path.count("."), i, path))
        ranked.sort()
        # Of two that are as likely none is told, such as those of problems that are keys.
        if ranked and (len(ranked) == 1 or ranked[0][:3] != ranked[1][:3]):
            path_of[name] = ranked[0][-1]
    return path_of


def holds(name: str, value: Any) -> bool:
    """Whether a value is of the kind that such a field holds."""
    if name == "group":
        return isinstance(value, str | int) and not isinstance(value, bool)
    if messages_of(value) is not None:
        return name == "response"
    if isinstance(value, list) and value:
        value = value[0]
    if name == "response":
        return isinstance(value, str) or messages_of(value) is not None
    if name == "reward":
        return isinstance(value, bool | int | float)
    return isinstance(value, str | int | float)


def described(value: Any) -> str:
    """The type of a value, and an example of it."""
    if (messages := messages_of(value)) is not None and not isinstance(value, str):
        return f"{len(messages)} messages"
    if isinstance(value, list):
        inner = f" of {described(value[0])}" if value else ""
        return f"list of {len(value)}{inner}"
    kind = {str: "text", bool: "true or false", int: "number", float: "number"}.get(
        type(value), type(value).__name__
    )
    shown = json.dumps(value, default=str, ensure_ascii=True)
    return f"{kind} {shown[:47] + '...' if len(shown) > 50 else shown}"
