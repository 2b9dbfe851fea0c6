"""Where a rollout's fields are in a row: `samples[].completion`, `messages[-1].content`.

Names are joined by dots. `[]` means each entry of a list, and `[0]` or `[-1]` one of them. Several
levels are allowed: `results[].completions[].score` beside `results[].question`. Lists that are
dealt out together must have the same length. A path without `[]` is read where it can mean one
thing only: what lies in a list's entries is meant of each of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import PROMPTS, TURNS, is_choice, is_turn, messages_of
from ktae.rollouts.rows import (
    PARSERS,
    Each,
    Row,
    is_label,
    is_null,
    is_score,
    label_of,
    without,
)

NAMES = (*(x for x in PARSERS if x != "context_spans"), "benchmark", "log_probs", "entropy")
"""Fields that `--field` may name."""
ONE_EACH = ("reward", "correct", "group", "prompt", "step", "advantage", "model", "source")
"""Fields that are one value a rollout: a list beside n responses has to be n of them."""
LISTS = ("token_ids", "mask", "log_probs", "entropy")
"""Fields that are one list a rollout."""

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
    if not path or (isinstance(value, dict) and path in value):
        return value[path] if path else value  # a name may hold a dot or a bracket
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
    return name_of(path) in TURNS or not all(is_turn(x) or is_choice(x) for x in value)


def unknown_row(row: Row, where: str, message: str, needed: Sequence[str]) -> UnknownRowsError:
    """The error of a row in no known form, which needs some of `LIKELY`."""
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
    """The paths with the first of the likely names whose values are such as the field holds.

    Last come rewards with such a name in theirs, and conversations by any name.
    """
    ranks: dict[str, int] = {}
    names = LIKELY.get(name, [])
    for path, value in there:
        last = name_of(path)
        last = last if last in names else last.removesuffix("s")
        first = value[0] if isinstance(value, list) and value else value
        is_talk = messages_of(value) is not None
        kinds = {
            "response": isinstance(first, str) or is_talk,
            "group": is_label(value),
            "reward": first is not None and is_score(first),
        }
        other = {
            "response": is_talk and last not in PROMPTS,
            "reward": not set(names).isdisjoint(re.split(r"\W|_", last)),
        }
        if kinds.get(name, not isinstance(first, dict)) and (last in names or other.get(name)):
            ranks[path] = names.index(last) if last in names else len(names)
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


# --- rollouts whose fields a user has named


def by_fields(row: Row, fields: Mapping[str, str], where: str) -> list[Row]:
    """The rollouts of a row whose response, or token ids, a user has named."""
    named = {name: at(row, path) for name, path in fields.items()}
    for name in ("response", "token_ids", "group"):
        if named.get(name) is MISSING:
            message = f"nothing at {fields[name]!r} for {name}"
            raise unknown_row(row, where, message, (name,))
        is_each = name != "group" and isinstance(named.get(name), Each)
        if is_each and (turns := turns_in(row, fields[name])):
            raise PathError(
                f"{where}: {name}={fields[name]} takes the turns in {turns!r} for rollouts of a "
                f"group; name the list for all of them, or one of them ({turns}[-1])"
            )
    named = {name: value for name, value in named.items() if value is not MISSING}
    # What the named fields are taken from is no field of the rollout any more.
    plain = without(row, [*(root_of(row, fields[name]) for name in named), *fields]) | named
    # Of a response that is one message of a conversation, the ones before it are the prompt.
    if match := re.fullmatch(r"(.+?)(?:\.-1|\[-1\])\.content", fields.get("response", "")):
        messages = messages_of(at(row, match[1]))
        if messages is not None and len(messages) > 1:
            plain = {"prompt": messages[:-1]} | plain
    if "group" in named:
        plain["group"] = label_of(named["group"])
    return list(spread(plain, where))


def turns_in(row: Row, path: str) -> str | None:
    """The list of a rollout's turns whose entries a path takes one by one."""
    for match in re.finditer(r"(\[\])?\.(?!-?\d)", path):
        before = path[: match.start()]
        value = at(row, before)
        value = value[0] if isinstance(value, Each) and value else value
        is_list = isinstance(value, list) and (match[1] or len(value) > 1)
        if is_list and (name_of(before) in TURNS or is_conversation(before, value)):
            return before
    return None


def override(
    rollouts: Sequence[Row], row: Row, fields: Mapping[str, str], where: str, is_list: bool
) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with a list of rollouts (`is_list`), a list that is named has one value a rollout.
    """
    named = {name: at(row, path) for name, path in fields.items()}
    named = {name: None if value is MISSING else value for name, value in named.items()}
    if "group" in named:
        named["group"] = label_of(named["group"])
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in named and "correct" not in named:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    values = [named] * len(rollouts)
    if len(rollouts) > 1 or is_list:
        values = list(spread({"response": [""] * len(rollouts)} | named, where))
    return [
        rollout | {name: value[name] for name in named}
        for rollout, value in zip(rollouts, values, strict=True)
    ]


# --- lists that are dealt out


def spread(row: Row, where: str) -> Iterator[Row]:
    """One row a rollout: what is an `Each`, or plainly a list of one value a rollout, is dealt out.

    Lists that are dealt out together have the same length, and no reward stands for several.
    """
    of = "response" if "response" in row else "token_ids"
    responses: Any = row.get(of)
    if not _is_many(of, responses):
        for name, value in row.items():
            if isinstance(value, Each):
                # A single response: a path through a list of one entry leads to its value.
                if len(value) != 1:
                    raise InputError(
                        f"{where}: {name} has {len(value)} values for one {of}; name one of them"
                    )
                row = row | {name: value[0]}
        yield row
        return
    n = len(responses)
    # Where the prompts are a list of n, a row is a batch in columns: all its lists of n are dealt
    # out. Otherwise a list may be one value, such as several accepted answers.
    lists = {k: x for k, x in row.items() if isinstance(x, list) and messages_of(x) is None}
    columns = any(len(lists.get(name, ())) == n for name in (*PROMPTS, "group"))
    dealt = {of: responses} | {name: x for name, x in row.items() if isinstance(x, Each)}
    for name, values in lists.items():
        if name in LISTS:
            is_dealt = any(isinstance(x, list) for x in values)
        else:
            is_batch = (columns and len(values) == n) or name in ONE_EACH
            is_dealt = is_batch or (name in PROMPTS and _is_many("response", values))
        if is_dealt:
            dealt[name] = values
    for name, values in dealt.items():
        if len(values) != n:
            raise InputError(f"{where}: {len(values)} of {name} for {n} of {of}")
    for name in ("reward", "correct"):
        if n > 1 and name not in dealt and not is_null(row.get(name)):
            raise InputError(
                f"{where}: {name} is {row[name]!r:.60}, one for {n} of {of}; name one of them, or "
                f"as {name} a list of {n}"
            )
    for i in range(n):
        yield from spread(row | {name: values[i] for name, values in dealt.items()}, where)


def _is_many(name: str, value: Any) -> bool:
    """Whether a response, or token ids, are a list of one value a rollout."""
    if isinstance(value, Each) or not isinstance(value, list):
        return isinstance(value, Each)
    if name == "token_ids":
        return bool(value) and all(isinstance(x, list) for x in value)
    return messages_of(value) is None and all(
        isinstance(x, str) or messages_of(x) is not None for x in value
    )
