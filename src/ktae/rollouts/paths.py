"""Where a rollout's fields are in a row: `samples[].completion`, `messages[-1].content`.

Names are joined by dots. `[]` means each entry of a list, and `[0]` or `[-1]` one of them. Several
levels are allowed: `results[].completions[].score` beside `results[].question`. Lists that are
dealt out together must have the same length. A path without `[]` is read where it can mean one
thing only: what lies in a list's entries is meant of each of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import TURNS, messages_of
from ktae.rollouts.rows import KINDS, PARSERS, Each, Row

NAMES = (*(x for x in PARSERS if x != "context_spans"), "benchmark", "log_probs", "entropy")
"""Fields that `--field` may name."""
MISSING = object()
_ENTRY = re.compile(r"\[(-?\d*)\]|(-1|\d+)(?=[.\[]|$)")
"""`[]`, `[2]`, or the form without brackets, at the beginning of a path."""


LIKELY = {
    name: names.split()
    for name, names in {
        "response": f"""response completion output model_output generation generated_text generated
            model_response full_model_response output_response prediction predict solution_str
            rollout sample code text content solution ys output_list out tokens
            {" ".join(TURNS)}""",
        "group": """group group_id prompt_id problem_id question_id task_id example_id group_index
            group_idx prompt_index problem_idx qid doc_id unique_id problem prompt question query
            input instruction idx id pid""",
        "reward": """reward correct is_correct correctness acc accuracy score exact_match pass
            passed success is_right is_ok ok verdict symbolic_correct is_solved graded_list resolved
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


class PathError(InputError):
    """A path that the user has named does not fit, which no other row makes good."""


def parse_fields(options: Sequence[str]) -> dict[str, str]:
    """`["response=output"]` as {"response": "output"}."""
    fields = {}
    for text in options:
        name, _, path = text.partition("=")
        if not path:
            raise InputError(f"--field {text}: expected NAME=PATH, such as response=output")
        if name not in NAMES:
            raise InputError(
                f"--field {text}: no field {name!r}; expected one of {', '.join(NAMES)}"
            )
        fields[name] = path
    return fields


def at(value: Any, path: str) -> Any:
    """What a path leads to, `MISSING` for nothing; values of each entry of a list are an `Each`."""
    if not path:
        return value
    if isinstance(value, dict) and (path in value or path.isidentifier()):
        return value.get(path, MISSING)  # a name may hold a dot or a bracket
    path = path.removeprefix(".")
    if isinstance(value, dict):
        starts = [x for x in value if isinstance(x, str) and path.startswith((f"{x}.", f"{x}["))]
        name = path if path in value else max(starts, key=len, default=None)
        return MISSING if name is None else at(value[name], path[len(name) :])
    if not isinstance(value, list):
        return MISSING
    entry = _ENTRY.match(path)
    rest = path[entry.end() :] if entry else path
    if entry and (index := entry[1] or entry[2]):
        return at(value[int(index)], rest) if -len(value) <= int(index) < len(value) else MISSING
    entries = [at(x, rest) for x in value]
    return MISSING if any(x is MISSING for x in entries) else Each(entries)


def root_of(row: Row, path: str) -> str:
    """The field of a row that a path begins with."""
    return path if path in row else re.split(r"[.\[]", path, maxsplit=1)[0]


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Paths and what they lead to; a list of objects stands for its first one, as `list[]`, and
    one of turns, which are no rollouts each, for its last one."""
    if isinstance(value, dict) and depth < 6 and (path == "" or value):
        for name, inside in value.items():
            yield from leaves(inside, f"{path}.{name}" if path else str(name), depth + 1)
    elif (
        isinstance(value, list)
        and value
        and isinstance(value[0], dict)
        and depth < 6
        and not is_conversation(path, value)
    ):
        index = -1 if name_of(path) in TURNS else 0
        yield from leaves(value[index], f"{path}[{index or ''}]", depth)
    else:
        yield path, value


def name_of(path: str) -> str:
    """The last name in a path."""
    return re.sub(r"(\[-?\d*\])+$", "", path).rpartition(".")[2].lower()


def is_conversation(path: str, value: Any) -> bool:
    """Whether a list is of messages; of objects with a response only if its name says turns."""
    if not isinstance(value, list) or messages_of(value) is None:
        return False
    return name_of(path) in TURNS or any({"role", "from", "type"} & x.keys() for x in value)


def unknown_row(row: Row, where: str, message: str, needed: Sequence[str]) -> UnknownRowsError:
    """The error of a row in no known form, which needs some of `LIKELY`."""
    there = list(leaves(row))
    marks = {path: f"   <- {name}?" for name in needed for path in likely_paths(there, name)}
    missing = " ".join(f"--field {name}=PATH" for name in needed)
    lines = [f"{where}: {message}; name its fields: {missing}"]
    width = max((len(path) for path, _ in there[:SHOWN]), default=0)
    for path, value in there[:SHOWN]:
        lines.append(f"  {path:{width}}  {described(value)}{marks.get(path, '')}")
    if len(there) > SHOWN:
        lines.append(f"  and {len(there) - SHOWN:,} more paths")
    return UnknownRowsError("\n".join(lines))


def likely_paths(there: Sequence[tuple[str, Any]], name: str) -> list[str]:
    """The paths with the first of the likely names whose values are such as the field holds.

    Last come rewards with such a name in theirs.
    """
    ranks: dict[str, int] = {}
    names = LIKELY.get(name, [])
    fits = KINDS[{"response": "said", "group": "label", "reward": "score"}.get(name, "any")]
    for path, value in there:
        last = name_of(path)
        last = last if last in names else last.removesuffix("s")
        values = value if isinstance(value, list) and value and name != "group" else [value]
        if value is not None and (fits(value) or fits(values[0])):
            if last in names:
                ranks[path] = names.index(last)
            elif name == "reward" and not set(names).isdisjoint(re.split(r"\W|_", last)):
                ranks[path] = len(names)
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
