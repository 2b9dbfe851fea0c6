"""How tools write rollouts: which fields tell a tool's rows, and where a rollout's fields are.

`tools.toml` has it as data. What paths cannot say is said by functions, from a row's other fields
with those that the table reads, the row itself, its place (which begins errors) and its source to
the plain rows in it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktae.arrays import is_above
from ktae.errors import InputError, passed_on, quoted
from ktae.rollouts.conversation import dialogue, from_json, joined, segments
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import MISSING, NAMES, at
from ktae.rollouts.values import KINDS, Row, as_label, is_null, is_number, label_of, without

if TYPE_CHECKING:
    from ktae.rollouts.locate import Located

FINAL = "ktae:group_is_final"
"""Field of a plain row: its label is its group, whatever the prompt says. `ktae:prompt_is_final`:
the prompt takes nothing from the conversation; `ktae:task`: the text that tells the problem."""
SCORES = "ktae:scores"
"""Field of a plain row: its rewards or metrics by name, of which one becomes its reward."""
CORRECTNESS_NAMES = (
    *("correct", "correctness", "correctness_reward", "accuracy", "accuracy_reward"),
    *("exact_match", "math_verify", "extractive_match", "acc", "qem", "em", "score", "reward"),
)
"""Rewards and metrics that say whether a rollout is correct; the first that is there counts."""
OF_FORM = re.compile("form|len|tag|style|penalt")
STEP = re.compile(r"(?:step|rollout)[_-]?(\d+)")
STEP_FOLDER = re.compile(r"(?:[a-z_]*step|rollout)[_-]?(\d+)(?:_epoch_\d+)?")
"""The name of a training step's folder, such as step_7, global_step_7 or train_step_7_epoch_0."""
VERL_KEY = re.compile(r"((.+)_\d+)_(\d{1,9})", re.DOTALL)
"""verl's default trainer writes each rollout's key as `uid`: "{sample}_{rollout}_{output}"."""
SAMPLES_FILE = re.compile(r"samples_(.+?)(_\d{4}-\d\d-\d\dT.*)?\.json.*")
"""lm-evaluation-harness has the task in the name of the file."""

Items = Iterator[tuple[Row, "Located"]]  # rows of a file, each with where it was found


@dataclasses.dataclass
class Source:
    """The file that rows come from, and what was asked for."""

    path: Path
    options: ReadOptions
    notes: Notes
    run: dict[Any, Any] = dataclasses.field(default_factory=dict)  # what schemas remember

    def named(self, row: Row) -> Row:
        """What the user has named in a row, null where it has nothing there; which is final."""
        options = self.options
        values = {k: None if (x := at(row, p)) is MISSING else x for k, p in options.fields.items()}
        if parts := [at(row, path) for path in options.group_by]:
            label = parts[0] if len(parts) == 1 else json.dumps(parts, default=str)
            values["group"] = None if MISSING in parts else label
        if "group" in values:
            values |= {"group": label_of(values["group"]), FINAL: True}
        if "prompt" in values:
            values["ktae:prompt_is_final"] = True
        return values


@dataclasses.dataclass(eq=False)
class Schema:
    """One tool's way to write rollouts; `tools.toml` explains its fields."""

    title: str
    has: str = ""
    has_any: str = ""
    reads: str = ""
    drops: str = ""
    run: str = ""
    convert: Callable[[Row, Row, str, Source], Iterable[Row]] | None = None
    once: Callable[[Items, Source], Items] = lambda items, source: items
    is_plain: bool = False  # whether no tool wrote the rows: all of them say what fields mean

    def __post_init__(self) -> None:
        self.all, self.any = (
            [field.rsplit(":", 1) for field in some.split()] for some in (self.has, self.has_any)
        )
        pairs = (field.split("=", 1) for field in self.reads.split())
        self.fields = [(name, paths.split("|")) for name, paths in pairs]

    def detects(self, row: Row) -> bool:
        """Whether a row is one of this schema."""

        def fits(path: str, kind: str) -> bool:
            value = row[path] if path in row else at(row, path) if "[" in path else MISSING
            return value is not MISSING and KINDS[kind](value)

        return all(fits(*x) for x in self.all) and (not self.any or any(fits(*x) for x in self.any))

    def rollouts(self, row: Row, where: str, source: Source) -> list[Row]:
        """The plain rows in a row; an InputError where a field is not what it has to be."""
        options = source.options
        has_names = not options.names_response and (options.fields or options.group_by)
        by_name = isinstance(row.get("reward"), dict)
        if not (self.fields or self.convert or options.correctness or has_names or by_name):
            return [row]  # it is what it says
        broken = f"{where}: looks like {self.title}, but a field is not as it should be"
        with passed_on(broken, TypeError, ValueError, LookupError, AttributeError):
            plain = self._read(row, source.path)
            rollouts = list(self.convert(plain, row, where, source)) if self.convert else [plain]
            if not self.is_plain:
                rollouts = [x for rollout in rollouts for x in dealt(rollout)]
        for rollout in rollouts:
            if isinstance(rollout.get("reward"), dict):
                rollout[SCORES] = rollout["scores"] = rollout["reward"]
            scores = rollout.pop(SCORES, None)
            if options.correctness:  # among a row's fields, and those in fields that hold several
                fields: Row = {}
                for name in ("metrics", "scores", "rewards", "reward", "metric", "extra"):
                    inner = from_json((row | rollout).get(name))
                    fields |= inner if isinstance(inner, dict) else {}
                scores = fields | row | rollout | (scores or {})
                scores = {k: x for k, x in scores.items() if KINDS["score"](x)}
            if scores is not None:
                rollout |= {"reward": choose(scores, where, source)}
                rollout.pop("correct", None)
        if not has_names:
            return rollouts
        named = source.named(row)
        taken = {x for x in options.fields.values() if self.is_plain and x not in NAMES.prompts}
        if "reward" in named and "correct" not in named:
            taken.add("correct")  # the row's verdict belongs to its own reward
        return [without(x, taken - options.fields.keys()) | named for x in rollouts]

    def _read(self, row: Row, path: Path) -> Row:
        """A row with the fields of `reads` by their names."""
        used, plain = {SCORES, *self.drops.split()}, dict[str, Any]()
        for name, paths in self.fields:
            is_final, name = name.endswith("!"), name.removesuffix("!")
            for place in paths:
                value: Any = step_of(path) if place == "@name" else at(row, place)
                if value is MISSING or (is_null(value) and name not in ("reward", "correct")):
                    continue
                plain[name] = label_of(value) if name == "group" else value
                plain |= {FINAL: True} if is_final else {}
                used.add(place if place in row else re.split(r"[.\[]", place, maxsplit=1)[0])
                if not is_null(value):
                    break
        return without(row, used | plain.keys()) | plain


def choose(scores: Row, where: str, source: Source) -> Any:
    """The value that says whether a rollout is correct, out of several by name.

    That is the one that was asked for, else the only one, else the first of
    `CORRECTNESS_NAMES`, else the only one that is not about form. Where none is needed and none can
    be told, it is None.
    """
    options, wanted = source.options, source.options.correctness
    names = [x for x in ([wanted] if wanted else CORRECTNESS_NAMES) if x in scores][:1]
    if not (wanted or names):
        names = [x for x in scores if len(scores) == 1 or not OF_FORM.search(x.lower())]
    if len(names) == 1:
        if not wanted and len(scores) > 1:
            source.notes.add("taken", repr(names[0]))
        return scores[names[0]]
    # Grading needs no reward, and one that the user has named need not be found.
    if not wanted and (not options.needs_reward or "reward" in options.fields):
        return None
    raise InputError(
        f"{where}: correctness is {wanted!r}; expected the reward function that says whether a "
        "rollout is correct (--correctness on the command line), one of "
        f"{quoted(scores) or 'none here'}"
    )


def dealt(plain: Row) -> Iterator[Row]:
    """One row for each of several responses; one value for all of them says nothing about each."""
    responses = plain.get("response")
    if not isinstance(responses, list) or not all(isinstance(x, str) for x in responses):
        yield plain  # a conversation is one response
        return
    n, shared = len(responses), plain.get("answer")

    def entry(value: Any, i: int, otherwise: Any = None) -> Any:
        is_each = isinstance(value, list) and len(value) == n
        value = value[i] if is_each else value if n == 1 else otherwise
        return None if value == [] else value

    for i, response in enumerate(responses):
        made: Row = {k: entry(plain[k], i) for k in ("reward", "token_ids") if k in plain}
        if SCORES in plain:
            made[SCORES] = {k: entry(x, i) for k, x in plain[SCORES].items()}
        yield plain | made | {"answer": entry(shared, i, shared), "response": response}


def step_of(path: Path) -> int | None:
    """The step that the name of a file, or else of a folder above it, tells; None where none."""
    matches = map(STEP.search, (path.name, *(folder.name for folder in list(path.parents)[:3])))
    return next((int(match[1]) for match in matches if match), None)


# --- trainers


def new_steps(items: Items, source: Source) -> Items:
    """The rows of TRL without those of a step whose rollouts are those of the step before.

    TRL logs its last generation batch at every step, and one batch may serve several steps.
    """
    for step, rows in itertools.groupby(items, key=lambda item: str(as_label(item[0]["step"]))):
        of_step, names = list(rows), ("prompt", "completion", "advantage", "advantages")
        batch = Counter(repr([row.get(name) for name in names]) for row, _ in of_step)
        before, last = source.run.get(source.path.parent, (step, None))
        source.run[source.path.parent] = step, batch
        if step != before and batch == last:
            source.notes.add("steps", f"step {step} repeats step {before}")
        else:
            yield from of_step


def trl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """One column a reward function, which gives floats, and whatever else was logged."""
    rest = without(row, ("step", "prompt", "completion", "advantage", "advantages"))
    scores = {k: x for k, x in rest.items() if x is None or isinstance(x, float)}
    scores |= {k: x for k, x in rest.items() if isinstance(x, bool) and k.endswith("_reward")}
    if not any(x is not None for x in scores.values()):
        scores = {k: x for k, x in rest.items() if KINDS["score"](x)}
    yield plain | {SCORES: scores}


def last_outputs(items: Items, source: Source) -> Items:
    """The rows of verl without padding, and of the outputs of a session the last alone.

    Outputs of a session follow each other, are numbered on, and have one reference answer.
    """
    number = itertools.count()

    def session(item: tuple[Row, Located]) -> object:
        row, located = item
        n, key = next(number), VERL_KEY.fullmatch(str(row.get("uid")))
        return (row["step"], row.get("gts"), key[1], int(key[3]) - n) if key else located.where

    for _, outputs in itertools.groupby(items, key=session):
        rows = list(outputs)
        row, located = rows[-1]
        source.notes.add("intermediate", n=len(rows) - 1)
        if str(row.get("uid")).startswith("pad") and not row["input"] and not row["output"]:
            source.notes.add("padding")
        else:
            yield row | {"input": rows[0][0]["input"]}, located  # the session's prompt


def verl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`acc`, where it is there, is the verdict, free of length penalties."""
    if sample := VERL_KEY.fullmatch(str(row.get("uid", ""))):
        plain["group"] = sample[2]
    value: Any = row.get("acc")
    if row.get("undecided") == 1:
        plain["correct"] = None
    elif is_number(value) and not is_null(value):
        plain["correct"] = is_above(value, source.options.threshold or 0.0)
        if 0 < value < 1 and source.options.threshold is None:
            source.notes.add("values", f"{value:g}")
    yield plain


def slime_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A `Sample`: `tokens` are the prompt's and the response's."""
    tokens, n = row["tokens"], row["response_length"]
    if isinstance(tokens, list) and isinstance(n, int) and 0 < n <= len(tokens):
        plain |= {"token_ids": tokens[-n:], "mask": row.get("loss_mask")}
    yield {"reward": None} | plain


def skyrl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """The `score` may be a list of one reward a token."""
    score = row["score"]
    yield plain | {"reward": sum(score) if isinstance(score, list) else score}


def episode_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """Episodes of verifiers and prime-rl: each trainable agent's trace is a rollout.

    Its group is the trainer's, or the task's.
    """

    def first(value: Any, *paths: str) -> Any:
        return next((x for p in paths if (x := at(value, p)) not in (MISSING, None)), None)

    for trace in row["traces"]:
        if first(trace, "agent.trainable") is False:
            continue
        task = trace.get("task") or row["task"]
        key = first(row, "group.id") or first(task, "key", "hash", "data.id", "data.idx")
        labels = [str(x) for x in (key, first(trace, "agent.name")) if x is not None]
        rewards = {k: r for k, r in (trace.get("rewards") or {}).items() if r is not None}
        weighted = [r["score"] * r.get("weight", 1) for r in rewards.values()]
        rollout = {
            "id": trace.get("id"),
            "group": " ".join(labels) or None,
            "step": first(row, "run.work.step"),
            "answer": first(task, "data.answer"),
            "model": next((x["model"] for x in trace.get("calls") or () if x.get("model")), None),
            "source": first(row, "env.name", "env.id"),
            "reward": trace.get("reward", sum(weighted) if weighted else None),
            "advantage": first(trace, "info.advantage"),
            "is_evaluation": first(row, "run.work.type", "run.type") == "eval",
            "scores": {k: r["score"] for k, r in rewards.items()},
            "metrics": trace.get("metrics"),
        }
        yield rollout | last_branch(trace.get("nodes") or [])


def last_branch(nodes: list[Row]) -> Row:
    """The conversation that ends with the last message: its prompt, response, tokens and mask.

    A trace is a graph of messages, each with the tokens that it adds to those before it.
    """
    path: list[Row] = []
    # What was tried to make the conversation shorter leads nowhere.
    kept = [i for i, x in enumerate(nodes) if "compaction_" not in str(x.get("semantic_parents"))]
    index = max(kept, default=None)
    while index is not None and len(path) <= len(nodes):
        path.insert(0, nodes[index])  # a broken file may have a circle
        index = nodes[index].get("parent")
    said = [(x.get("message") or {}) | {"trainable": bool(x.get("sampled"))} for x in path]
    plain = dialogue(segments({"role": "tool"} | message for message in said)) or {"response": ""}
    ids, mask = ([x for node in path for x in node.get(k) or ()] for k in ("token_ids", "mask"))
    if True in mask and len(mask) == len(ids):
        first = mask.index(True)
        plain |= {"token_ids": ids[first:], "mask": mask[first:]}
    return plain


# --- evaluations


def authors_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """These files name no problem: the n-th row of a task is its n-th problem."""
    numbers, task = source.run.setdefault(source.path, Counter()), row.get("task_name", "row")
    yield plain | {"group": f"{task}/{numbers[task]}"}
    numbers[task] += 1


def lm_eval_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """One row a problem and filter; `resps` holds the responses.

    Several filters read the same responses; when a problem comes again, it is another filter's.
    """
    seen = source.run.setdefault(source.path, set())
    if row["doc_id"] in seen:
        source.notes.add("filters")
        return
    seen.add(row["doc_id"])
    if len(row["resps"]) != 1:
        raise InputError(f"{where}: log-likelihoods of choices; expected one generated response")
    names = row.get("metrics") or [k for k in plain if isinstance(plain[k], float | bool | list)]
    if task := SAMPLES_FILE.fullmatch(source.path.name):
        plain["benchmark"] = task[1]
    scores = {name: plain[name] for name in names if name in plain}
    yield plain | {SCORES: scores, "response": row["resps"][0]}


def lighteval_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`doc`, `model_response` and `metric`; the response's tokens where the engine gave them."""
    doc, texts = row["doc"], row["model_response"]["text"]
    thoughts = row["model_response"].get("reasonings") or [None] * len(texts)
    gold, names = doc.get("gold_index"), str(doc.get("task_name") or "").split("|")
    answers = [doc["choices"][i] for i in (gold if isinstance(gold, list) else [gold])]
    yield plain | {
        "response": [joined(pair) for pair in zip(thoughts, texts, strict=True)],
        "answer": answers[0] if len(answers) == 1 else answers,
        "benchmark": names[1] if len(names) > 2 else names[0] or None,
        SCORES: {k: x for k, x in row["metric"].items() if is_number(x)},
    }


def inspect_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A sample of inspect's log, with scores by scorer; its input is the first of its messages."""
    scores: Row = {}
    for name, score in row["scores"].items():
        value = score.get("value") if isinstance(score, dict) else score
        scores |= value if isinstance(value, dict) else {name: value}
    # P (partly correct) and N (no answer) are unknown.
    scores = {k: None if x in ("P", "N") else x for k, x in scores.items()}
    scores = {k: x for k, x in scores.items() if KINDS["score"](x)}
    yield plain | {"scores": scores} | ({SCORES: scores} if scores else {"reward": None})


# --- all of them

TOOLS = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))["tool"]
FUNCTIONS = [{k: globals()[x[k]] for k in ("convert", "once") if k in x} for x in TOOLS]
SCHEMAS = tuple(Schema(**tool | named) for tool, named in zip(TOOLS, FUNCTIONS, strict=True))
"""In the order in which they are tried."""


def detect(row: Row, likely: Schema | None = None) -> Schema | None:
    """The schema of a row, None for a plain one; `likely` is that of the row before."""
    if "group" in row and ("token_ids" in row or KINDS["said"](row.get("response"))):
        return None  # it is what it says, whatever else it has
    schemas = SCHEMAS if likely is None else (likely, *SCHEMAS)
    return next((x for x in schemas if x.detects(row)), None)
