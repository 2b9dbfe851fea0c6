"""Which rollouts are a group: those that agree in run, file, label, prompt, model and step."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.groups import ROWS_PER_BATCH, group_codes, numbered
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.schemas.base import STEP_FOLDER, Schema

READ = (
    pa.field("place", pa.int32()),
    pa.field("is_evaluation", pa.bool_()),
    pa.field("by_reward", pa.bool_()),
    pa.field("is_alone", pa.bool_()),
)
"""Columns beside the record's while files are read: the number of the rollout's `Place`; whether it
is of an evaluation; whether its reward alone says that it is correct, null where ktae has written
it; and whether its label is its row's, which nothing in another file is."""
WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|episodes|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
OWN_STEP = r"step-\d+\.parquet"
"""The files of ktae's own run folder."""


class Place(NamedTuple):
    """Where rollouts come from, as far as it tells groups apart."""

    file: str
    """The file's path."""
    run: str | None
    """Its run's folder; None where the file is by itself."""
    table: str | None
    """Of several tables in a file the name of this one."""
    front: str
    """What stands in front of its groups' names where there are others."""


def run_of(file: Path, schema: Schema | None) -> Path:
    """The folder of the run whose file it is, by its tool's names; or else the file itself.

    Its evaluations, which may be of the same prompts, are apart. `schema` is that of its rows;
    None for a record that ktae has written.
    """
    if not re.fullmatch(OWN_STEP if schema is None else schema.run, file.name):
        return file
    folder, inside = file.parent, set()
    while folder.name and WITHIN_RUN.fullmatch(folder.name):
        inside.add(folder.name)
        folder = folder.parent
    return folder / "eval" if "eval" in inside else folder


def place_of(
    path: Path, file: Path, schema: Schema | None, table: str | None, is_single: bool
) -> Place:
    """The place of rollouts. `path` is the input whose file it is; `is_single`: the only input."""
    run = run_of(file, schema)
    root = path if path.is_dir() or run == file else run
    parts = [] if is_single else [path_text(root)]
    parts += [path_text(run.relative_to(root))] if root in run.parents else []
    front = "".join(f"{part}:" for part in parts)
    return Place(path_text(file), None if run == file else path_text(run), table, front)


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
    """The record of what was read, with what tells its groups apart and their names, and without
    evaluations beside training.

    Args:
        table: the record's columns and those of `READ`; `label` and `prompt_id` are the rows' own.
        places: by the numbers in `place`.
        options: `join` takes files together, `pool_models` models.
        notes: takes what was told apart and left out.
    """
    place_b, is_evaluation_b = (table[x].to_numpy() for x in ("place", "is_evaluation"))
    is_alone_b = table["is_alone"].to_numpy()
    table = table.select(record.SCHEMA.names).replace_schema_metadata(record.SCHEMA.metadata)
    note_prompts(table, place_b, options, notes)
    table = with_places(table, place_b, is_alone_b, places, options, notes)
    models_b = models_apart(table, options.pool_models, notes)
    codes_b = codes_of(
        [*(table[x] for x in ("run", "file", "label", "prompt_id", "step")), models_b],
        is_evaluation_b,
    )
    fronts = [x.front for x in places]
    shows_place = len(set(fronts)) > 1 and not options.join
    table = with_names(
        table, codes_b, models_b, [fronts[x] if shows_place else "" for x in place_b]
    )
    note_copies(table, codes_b, notes)
    kept_b = of_one_kind(is_evaluation_b, options.evaluation, notes)
    return table if kept_b.all() else table.filter(pa.array(kept_b))


def codes_of(columns: Sequence[Any], *more: np.ndarray) -> np.ndarray:
    """(B,) numbers of the groups of rows that agree in all of these columns."""
    codes_b = np.zeros(len(columns[0]), dtype=np.int64)
    for other_b in (*map(numbered, columns), *(np.asarray(x, dtype=np.int64) for x in more)):
        pairs = codes_b * (int(other_b.max(initial=0)) + 1) + other_b
        codes_b = np.unique(pairs, return_inverse=True)[1]
    return codes_b


def note_prompts(table: Any, place_b: np.ndarray, options: ReadOptions, notes: Notes) -> None:
    """Note labels with several prompts: those that are told apart, and those that stay a group."""
    prompt_b = numbered(table["prompt_id"])
    known_b = table["label"].is_valid().to_numpy()
    label_b = codes_of([table["label"], table["step"]], place_b)
    has_id_b = known_b & table["prompt_id"].is_valid().to_numpy()
    first: dict[int, int] = {}
    for row in np.flatnonzero(has_id_b).tolist():
        first.setdefault(label_b[row], prompt_b[row])
    firsts_b = np.array([first[x] for x in label_b[has_id_b]], dtype=np.int64)
    notes.add("split", n=int((prompt_b[has_id_b] != firsts_b).sum()))
    final_b = known_b & ~has_id_b & table["prompt"].is_valid().to_numpy()
    if final_b.any():
        texts_b = numbered(pc.utf8_trim_whitespace(table["prompt"]))
        pairs = np.unique(np.stack([label_b[final_b], texts_b[final_b]]), axis=1)
        notes.add("several_prompts", n=int((np.unique(pairs[0], return_counts=True)[1] > 1).sum()))


def with_places(
    table: Any,
    place_b: np.ndarray,
    is_alone_b: np.ndarray,
    places: Sequence[Place],
    options: ReadOptions,
    notes: Notes,
) -> Any:
    """The record with `run` and `file` where they tell groups apart."""
    keys = [table[x] for x in ("label", "prompt_id", "step")]
    runs = [x.run or x.file for x in places]
    files_b, runs_b = (
        numbered(pa.chunked_array([x]))[place_b] for x in ([x.file for x in places], runs)
    )
    n_files = len(np.unique(files_b))
    if options.join:
        notes.add("join", n=n_files if n_files > 1 else 0)
    elif n_files > 1:
        notes.add("run", n=n_several(codes_of(keys, runs_b), files_b))
        notes.add("apart", n=n_several(codes_of(keys), runs_b))
    n_tables = len({x.table for x in places})
    notes.add("tables", n=n_tables if n_tables > 1 else 0)
    is_one = options.join or len(set(runs)) == 1
    of_place = [
        (None, x.table) if is_one else (x.run or x.table, x.table if x.run else x.file)
        for x in places
    ]
    of_row = [
        (None, places[place].file) if is_alone else of_place[place]
        for place, is_alone in zip(place_b.tolist(), is_alone_b.tolist(), strict=True)
    ]
    for name, values in zip(("run", "file"), zip(*of_row, strict=True), strict=True):
        i, field = record.SCHEMA.get_field_index(name), record.SCHEMA.field(name)
        table = table.set_column(i, field, pa.array(values, field.type))
    return table


def with_names(table: Any, codes_b: np.ndarray, models_b: Any, fronts: Sequence[str]) -> Any:
    """The record with a name for each group, which no other has in its step."""
    names: list[str] = []
    labels, prompts = table["label"].to_pylist(), table["prompt_id"].to_pylist()
    steps, models = table["step"].to_pylist(), models_b.to_pylist()
    tables = table["file"].to_pylist()
    label_of_code: dict[int, str] = {}
    first: dict[Any, str | None] = {}
    codes_of_name: dict[tuple[str, Any], set[int]] = {}
    for row, code in enumerate(codes_b.tolist()):
        if code not in label_of_code:
            label, prompt, model = labels[row], prompts[row], models[row]
            name = f"prompt {prompt}" if label is None else label
            # Of a label's prompts, the first needs no name.
            if label is not None and prompt is not None:
                known = first.setdefault(
                    (fronts[row], label, steps[row], model, tables[row]), prompt
                )
                name = label if known == prompt else f"{label}, prompt {prompt}"
            name = fronts[row] + name
            if model is not None and not name.endswith(f" ({model})"):
                name = f"{name} ({model})"
            taken = codes_of_name.setdefault((name, steps[row]), set())
            taken.add(code)
            label_of_code[code] = name if len(taken) == 1 else f"{name} #{len(taken)}"
        names.append(label_of_code[code])
    return table.set_column(0, record.SCHEMA.field("group"), pa.array(names, pa.string()))


def note_copies(table: Any, codes_b: np.ndarray, notes: Notes) -> None:
    """Note where every response stands in its group more than once."""
    # Arrow's `group_by` would copy all texts twice.
    hashes = [hash(text) for chunk in table["response"].chunks for text in chunk.to_pylist()]
    texts = np.array([codes_b, hashes])[:, table["response"].is_valid()]
    copies = np.unique(texts, axis=1, return_counts=True)[1]
    if len(copies) > 1 and copies.min() > 1:
        notes.add("copies", n=int((copies - 1).sum()))


def of_one_kind(is_evaluation_b: np.ndarray, evaluation: bool, notes: Notes) -> np.ndarray:
    """(B,) which rollouts are read: of evaluations and training in one dump those of one kind."""
    kept_b = is_evaluation_b if evaluation else ~is_evaluation_b
    if kept_b.all() or not kept_b.any():
        return np.ones(len(kept_b), dtype=bool)
    notes.add("training" if evaluation else "evaluation", n=int((~kept_b).sum()))
    return kept_b


def n_several(group_b: np.ndarray, where_b: np.ndarray) -> int:
    """How many groups stand in several places."""
    pairs = np.unique(np.stack([group_b, where_b]), axis=1)
    return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


def models_apart(table: Any, pool: bool | None, notes: Notes) -> Any:
    """Each rollout's model where models are told apart, and nulls where they are not."""
    none = pa.chunked_array([pa.nulls(len(table), pa.string())])
    models = [name for name in pc.unique(table["model"]).to_pylist() if name is not None]
    if len(models) < 2:
        return none
    if pool is None:  # where most rollouts would be the only one of their model in their group
        keys = [table[x] for x in ("run", "file", "label", "prompt_id", "step", "model")]
        sizes = np.bincount(codes_of(keys))
        pool = 2 * int((sizes == 1).sum()) > len(table)
    notes.counts["pooled" if pool else "models"] = len(models)
    return none if pool else table["model"]


MIN_TURNS, SHARED = 20, 0.25
"""Later turns of agents, and the share of them whose state is shared, below which that is noted."""


def note_states(rollouts: Any, notes: Notes) -> None:
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


PREFIX = 3
"""Token ids that rollouts of a group have in common, if the ids begin with the prompt's."""
SAME_TEXT = 16
"""Characters that two texts have in common, if the same token begins both."""


def note_prompt_ids(rollouts: Any, notes: Notes) -> None:
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
    of_group: dict[int, list[tuple[tuple[int, ...], str]]] = defaultdict(list)
    for code, head, text in zip(codes_b.tolist(), heads, texts, strict=True):
        if len(head) == PREFIX and text:
            of_group[code].append((tuple(head), text))
    alike = {
        code: pairs
        for code, pairs in of_group.items()
        if len(pairs) > 1 and len({head for head, _ in pairs}) == 1
    }
    heads_of: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for pairs in alike.values():
        for head, text in pairs:
            heads_of[text].add(head)
    odd = [
        pairs
        for pairs in alike.values()
        if len({text[:1] for _, text in pairs}) > 1
        or any(len(text) == SAME_TEXT and len(heads_of[text]) > 1 for _, text in pairs)
    ]
    notes.add("ids_prompt", n=len(odd) if 2 * len(odd) > len(of_group) else 0)
