"""Which rollouts are a group: those that agree in run, file, label, prompt, model and step.

Beside that stand the notes that only all rollouts together tell.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.groups import ROWS_PER_BATCH, group_codes, numbered
from ktae.rollouts.names import CONDITIONS, NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.schemas.base import STEP_FOLDER
from ktae.rollouts.values import PARSERS, Row

READ = (
    pa.field("place", pa.int32()),
    pa.field("is_evaluation", pa.bool_()),
    pa.field("by_reward", pa.bool_()),
)
"""Columns beside the record's while files are read: the number of the rollout's `Place`; whether it
is of an evaluation; and whether its reward alone says that it is correct, null where ktae has
written it."""
WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|episodes|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
OWN_STEP = r"step-\d+\.parquet"
"""The files of ktae's own run folder."""
KEYS = ("run", "file", "label", "prompt_id", "step")
MAX_VALUES = 64
"""Values of a condition; a field of more is none."""
MIN_TURNS, SHARED = 20, 0.25
"""Later turns of agents, and the share of them whose state is shared, below which that is noted."""
PREFIX, SAME_TEXT = 3, 16
"""Token ids that rollouts of a group have in common, if the ids begin with the prompt's, and
characters that two texts have in common, if the same token begins both."""


class Place(NamedTuple):
    """Where rollouts come from, as far as it tells groups apart."""

    run: str | None
    file: str | None
    front: str
    """What stands in front of the names of its groups where there are others."""


def place_of(
    path: Path, file: Path, names: str, table: str | None, is_single: bool, join: bool = False
) -> Place:
    """The place of a file's rollouts.

    Args:
        path: the input whose file it is.
        file: the file itself.
        names: what their tool calls the files of a run, as a pattern. A run's evaluations, which
            may be of the same prompts, are apart.
        table: of several tables in the file the name of this one.
        is_single: whether there is no other input.
        join: whether files are taken together.
    """
    run = file
    if re.fullmatch(names, file.name):
        run, inside = file.parent, set()
        while run.name and WITHIN_RUN.fullmatch(run.name):
            inside.add(run.name)
            run = run.parent
        run = run / "eval" if "eval" in inside else run
    root = path if path.is_dir() or run == file else run
    parts = [] if is_single else [path_text(root)]
    parts += [path_text(run.relative_to(root))] if root in run.parents else []
    if join:
        return Place(None, table, "")
    is_alone = run == file and table is None
    front = "".join(f"{part}:" for part in parts)
    return Place(None, path_text(file), front) if is_alone else Place(path_text(run), table, front)


def note_rewards(table: Any, notes: Notes) -> None:
    """Note where rewards leave open which of them mean correct."""
    rewards_b = table["reward"].filter(table["by_reward"]).to_numpy()
    values, counts = np.unique(rewards_b, return_counts=True)
    above = values > 0
    if above.sum() > 1 or (values[above] < 1).any():
        first = ", ".join(f"{x:g}" for x in values[above][:3]) + ", ..." * bool(above.sum() > 3)
        notes.add("values", first, int(counts[above].sum()))
    if len(rewards_b) == len(table) and len(values) > 1:
        shown = f"{values[0]:g} to {values[-1]:g}"
        notes.add("all_above", shown, n=int(above.all()))
        notes.add("none_above", shown, n=int(not above.any()))


def grouped(table: Any, places: Sequence[Place], options: ReadOptions, notes: Notes) -> Any:
    """The record of what was read, with names for its groups, and without evaluations beside
    training.

    Args:
        table: the record's columns and those of `READ`.
        places: by the numbers in `place`.
        options: `pool_models` takes models together.
        notes: takes what was told apart and left out.
    """
    is_evaluation, place_b = (table[x].to_numpy() for x in ("is_evaluation", "place"))
    table = table.select(record.SCHEMA.names).replace_schema_metadata(record.SCHEMA.metadata)
    for i, name in enumerate(("run", "file")):
        values = pa.array([place[i] for place in places], pa.string())
        # What all have in common tells nothing.
        values = values if len(values.unique()) > 1 else pa.nulls(len(values), pa.string())
        field, at = record.SCHEMA.field(name), record.SCHEMA.get_field_index(name)
        table = table.set_column(at, field, values.take(pa.array(place_b)))
    if len(places) > 1:
        where_b = codes_of([table["run"], table["file"]])
        notes.add("apart", n=_n_several(codes_of([table[x] for x in KEYS[2:]]), where_b))
    _note_prompts(table, notes)
    models = _models_apart(table, options.pool_models, notes)
    codes_b = codes_of([*(table[x] for x in KEYS), models], is_evaluation)
    fronts = [place.front if len({x.front for x in places}) > 1 else "" for place in places]
    names = _names(table, codes_b, models.to_pylist(), [fronts[x] for x in place_b])
    table = table.set_column(0, record.SCHEMA.field("group"), pa.array(names, pa.string()))
    _note_copies(table, codes_b, notes)
    # Where a dump holds evaluations and training, one kind is read.
    kept_b = is_evaluation if options.evaluation else ~is_evaluation
    if kept_b.any() and not kept_b.all():
        notes.add("training" if options.evaluation else "evaluation", n=int((~kept_b).sum()))
        table = table.filter(pa.array(kept_b))
    _note_prompt_ids(table, notes)
    _note_states(table, notes)
    return table


def codes_of(columns: Sequence[Any], *more: np.ndarray) -> np.ndarray:
    """(B,) numbers of the groups of rows that agree in all of these columns."""
    codes_b = np.zeros(len(columns[0]), dtype=np.int64)
    for other_b in (*map(numbered, columns), *(np.asarray(x, dtype=np.int64) for x in more)):
        if n_more := int(other_b.max(initial=0)):  # a column of one value tells nothing
            pairs = codes_b * (n_more + 1) + other_b
            codes_b = np.unique(pairs, return_inverse=True)[1] if codes_b.any() else other_b
    return codes_b


def _n_several(group_b: np.ndarray, where_b: np.ndarray) -> int:
    """How many groups stand in several places."""
    pairs = np.unique(np.stack([group_b, where_b]), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


def _names(
    table: Any, codes_b: np.ndarray, models: Sequence[str | None], fronts: Sequence[str]
) -> list[str]:
    """A name for the group of each row, which no other group of its step has."""
    labels, prompts = table["label"].to_pylist(), table["prompt_id"].to_pylist()
    steps, name_of_code, taken = table["step"].to_pylist(), dict[int, str](), Counter[Any]()
    for row, code in enumerate(codes_b.tolist()):
        if code not in name_of_code:
            name = f"prompt {prompts[row]}" if labels[row] is None else labels[row]
            name, model = fronts[row] + name, models[row]
            if model is not None and not name.endswith(f" ({model})"):
                name = f"{name} ({model})"
            taken[name, steps[row]] += 1
            n = taken[name, steps[row]]
            name_of_code[code] = name if n == 1 else f"{name} #{n}"
    return [name_of_code[code] for code in codes_b.tolist()]


def _models_apart(table: Any, pool: bool | None, notes: Notes) -> Any:
    """Each rollout's model where models are told apart, and nulls where they are not."""
    models = [name for name in pc.unique(table["model"]).to_pylist() if name is not None]
    if len(models) > 1 and pool is None:
        # Pooled where most rollouts would be the only one of their model in their group.
        sizes = np.bincount(codes_of([table[x] for x in (*KEYS, "model")]))
        pool = 2 * int((sizes == 1).sum()) > len(table)
    if len(models) > 1:
        notes.counts["pooled" if pool else "models"] = len(models)
    is_one = len(models) < 2 or pool
    return pa.chunked_array([pa.nulls(len(table), pa.string())]) if is_one else table["model"]


# --- what only all rollouts together tell


def _note_prompts(table: Any, notes: Notes) -> None:
    """Note labels with several prompts: those that are told apart, and those that stay a group."""
    prompt_b, has_id_b = numbered(table["prompt_id"]), table["prompt_id"].is_valid().to_numpy()
    known_b = table["label"].is_valid().to_numpy()
    label_b = codes_of([table[x] for x in ("run", "file", "label", "step")])
    told_b = known_b & has_id_b
    first = dict(zip(label_b[told_b][::-1].tolist(), prompt_b[told_b][::-1].tolist(), strict=True))
    firsts_b = np.array([first[x] for x in label_b[told_b].tolist()], dtype=np.int64)
    notes.add("split", n=int((prompt_b[told_b] != firsts_b).sum()))
    final_b = known_b & ~has_id_b & table["prompt"].is_valid().to_numpy()
    if final_b.any():
        texts_b = numbered(pc.utf8_trim_whitespace(table["prompt"]))
        notes.add("several_prompts", n=_n_several(label_b[final_b], texts_b[final_b]))


def _note_copies(table: Any, codes_b: np.ndarray, notes: Notes) -> None:
    """Note where every response stands in its group more than once."""
    # Arrow's `group_by` would copy all texts twice.
    hashes = [hash(text) for chunk in table["response"].chunks for text in chunk.to_pylist()]
    texts = np.array([codes_b, hashes])[:, table["response"].is_valid()]
    copies = np.unique(texts, axis=1, return_counts=True)[1]
    if len(copies) > 1 and copies.min() > 1:
        notes.add("copies", n=int((copies - 1).sum()))


def note_conditions(rollouts: Sequence[tuple[Row, Row]], notes: Notes) -> None:
    """Note fields that differ between rollouts of a group and come of no rollout, such as a method.

    `rollouts` are plain rows, each with its row of the record.

    Raises:
        InputError: where notes are strict, and a field's name says that its rollouts are not meant
            to be compared.
    """
    for name in dict.fromkeys(name for plain, _ in rollouts for name in plain):
        lower = name.lower()
        is_outcome = lower not in CONDITIONS and any(x in lower for x in NAMES.outcomes)
        if name in PARSERS or name[:1] == "_" or is_outcome:
            continue
        of_group = defaultdict[Any, list[tuple[Any, Any]]](list)
        for plain, made in rollouts:
            if plain.get(name) is not None:
                group = (made.get(x) for x in ("label", "prompt_id", "step", "is_evaluation"))
                of_group[tuple(group)].append((plain[name], made.get("correct")))
        values = {x for pairs in of_group.values() for x, _ in pairs if type(x) in (str, int)}
        n = sum(type(x) in (str, int) for pairs in of_group.values() for x, _ in pairs)
        is_field = n == sum(map(len, of_group.values())) and len(values) <= MAX_VALUES
        if is_field and _is_condition(list(of_group.values()), lower in CONDITIONS):
            notes.add("conditions", repr(name))
            if notes.strict and lower in CONDITIONS:
                raise InputError(
                    f"rollouts of a group differ in {name!r}; expected one value in each group "
                    f"(--group-by PROMPT --group-by {name} tells them apart)"
                )


def _is_condition(groups: Sequence[list[tuple[Any, Any]]], is_named: bool) -> bool:
    """Whether most groups have several values, more than once, which verdicts do not tell."""
    large = [pairs for pairs in groups if len(pairs) > 1]
    sizes = [Counter(x for x, _ in pairs) for pairs in large]
    several = [x for x in sizes if len(x) > 1]
    if not several or 2 * len(several) < len(large):
        return False
    # A number of the rollout within its group has each value once.
    is_repeated = any(min(x.values()) > 1 for x in several)
    mixed = [pairs for pairs in large if len({correct for _, correct in pairs}) > 1]
    tells = bool(mixed) and all(len({*pairs}) == len({x for x, _ in pairs}) for pairs in mixed)
    return is_named or (is_repeated and not tells)


def _note_states(rollouts: Any, notes: Notes) -> None:
    """Note agents whose states, what is seen before a later turn, are hardly shared in a group."""
    codes_b, _ = group_codes(rollouts)
    states: Counter[tuple[int, str]] = Counter()
    has_turns = rollouts["segments"].is_valid()
    codes = iter(codes_b[has_turns.to_numpy()].tolist())
    for batch in rollouts.select(["segments"]).filter(has_turns).to_batches(ROWS_PER_BATCH):
        for parts in batch["segments"].to_pylist():
            code, seen = next(codes), ""
            for part in parts:
                if part["role"] == "policy" and seen:
                    states[code, seen] += 1
                seen = "" if part["role"] == "policy" else seen + part["text"]
    shared = sum(n for n in states.values() if n > 1)
    if states.total() >= MIN_TURNS and shared < SHARED * states.total():
        notes.add("states", f"{shared:,} of {states.total():,}")


def _note_prompt_ids(rollouts: Any, notes: Notes) -> None:
    """Note groups whose token ids are not those of their responses, as far as that can be seen.

    The ids of a group begin alike, though the texts do not, or they begin otherwise than those of
    another group whose texts begin alike: they may begin with the prompt's.
    """
    has_both = pc.and_(rollouts["token_ids"].is_valid(), rollouts["response"].is_valid())
    if not pc.any(has_both).as_py():
        return
    codes_b, _ = group_codes(rollouts)
    heads = [x.values[:PREFIX].to_pylist() if x.is_valid else [] for x in rollouts["token_ids"]]
    texts = pc.utf8_slice_codeunits(rollouts["response"], 0, SAME_TEXT).to_pylist()
    of_group = defaultdict[int, list[tuple[tuple[int, ...], str]]](list)
    for code, head, text in zip(codes_b.tolist(), heads, texts, strict=True):
        if len(head) == PREFIX and text:
            of_group[code].append((tuple(head), text))
    alike = [x for x in of_group.values() if len(x) > 1 and len({head for head, _ in x}) == 1]
    heads_of = defaultdict[str, set[tuple[int, ...]]](set)
    for head, text in (pair for pairs in alike for pair in pairs):
        heads_of[text].add(head)
    odd = [
        pairs
        for pairs in alike
        if len({text[:1] for _, text in pairs}) > 1
        or any(len(text) == SAME_TEXT and len(heads_of[text]) > 1 for _, text in pairs)
    ]
    notes.add("ids_prompt", n=len(odd) if 2 * len(odd) > len(of_group) else 0)
