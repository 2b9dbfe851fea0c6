"""Small files in the structures that people have, and what must come of each.

By kind: how rows stand in a container, what plain fields mean, which rollouts are a group, what the
policy wrote, and what is refused or proposed.
"""

import io
import json
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ktae import InputError
from ktae.rollouts import readers
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import UnknownRowsError, parse_fields
from ktae.rollouts.proposal import propose

PROBLEMS = (("How many wheels have 3 carts?", "12"), ("How many wheels have 2 bikes?", "4"))
TRIES = 4


def rollouts() -> list[dict[str, Any]]:
    """Two problems, four tries at each: every other one is correct."""
    return [
        {
            "n": problem,
            "asked": PROBLEMS[problem][0],
            "text": f"Count them. Try {i}: {PROBLEMS[problem][1] if i % 2 == 0 else 7 + i}.",
            "ok": i % 2 == 0,
            "gold": PROBLEMS[problem][1],
        }
        for problem in range(len(PROBLEMS))
        for i in range(TRIES)
    ]


def rows(**fields: str) -> list[dict[str, Any]]:
    """The rollouts with these fields: `completion="text"` is the text under another name."""
    return [{name: x[source] for name, source in fields.items()} for x in rollouts()]


PLAIN = {"prompt": "asked", "response": "text", "reward": "ok"}


def json_lines(entries: list[Any]) -> str:
    return "".join(json.dumps(x) + "\n" for x in entries)


def by_problem(entries: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {f"wheels/{n}": entries[n * TRIES : (n + 1) * TRIES] for n in range(len(PROBLEMS))}


def columns(entries: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [x[name] for x in entries] for name in entries[0]}


def chat(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def read(path: Path, fields: tuple[str, ...] = (), **options: Any) -> tuple[Any, Notes]:
    notes = Notes()
    how = ReadOptions(fields=parse_fields(fields), **options)
    return readers.read(path, how, notes=notes), notes


def counts(table: Any) -> tuple[int, int, int]:
    """Rollouts, groups, and groups with both correct and incorrect rollouts."""
    codes, first = group_codes(table)
    correct = table["correct"].to_numpy()
    mixed = [len(set(correct[codes == g]) & {0.0, 1.0}) == 2 for g in range(len(first))]
    return len(table), len(first), sum(mixed)


# --- where rows stand in a file

CONTAINERS = {
    "lines.jsonl": json_lines(rows(**PLAIN)),
    "other_name.ndjson": json_lines(rows(**PLAIN)),
    "a_list.json": json.dumps(rows(**PLAIN)),
    "a_list_in.jsonl": json.dumps(rows(**PLAIN)),
    "over_lines.jsonl": "\n".join(json.dumps(x, indent=1) for x in rows(**PLAIN)),
    "below_outputs.json": json.dumps({"metadata": {"model": "m"}, "outputs": rows(**PLAIN)}),
    "below_data_results.json": json.dumps({"data": {"results": rows(**PLAIN)}, "version": 2}),
    "by_problem.json": json.dumps(by_problem(rows(response="text", reward="ok"))),
    "by_problem_below.json": json.dumps({"date": "2031", "eval": by_problem(rows(**PLAIN))}),
    "rows_by_id.json": json.dumps({f"r{i}": x for i, x in enumerate(rows(**PLAIN))}),
    "columns.json": json.dumps(columns(rows(**PLAIN))),
    "batch.jsonl": json.dumps(columns(rows(**PLAIN))) + "\n",
    "of_pandas.json": json.dumps(
        {name: dict(enumerate(xs)) for name, xs in columns(rows(**PLAIN)).items()}
    ),
    "summary_first.jsonl": json_lines([{"accuracy": 0.5, "total": 8}, *rows(**PLAIN)]),
    "nested.json": json.dumps(
        {
            "results": [
                {"question": xs[0]["prompt"], "samples": [{**x, "prompt": None} for x in xs]}
                for xs in by_problem(rows(**PLAIN)).values()
            ]
        }
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_rows_are_found(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CONTAINERS[name])
    table, _ = read(tmp_path / name)
    assert counts(table) == (8, 2, 2)
    assert table["response"].to_pylist() == [x["text"] for x in rollouts()]


def test_the_zip_of_inspect_is_read(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m/x"}}))
        for epoch, (text, letter) in enumerate((("4", "C"), ("5", "I")), start=1):
            sample = {"id": 1, "epoch": epoch, "input": "2+2?", "messages": chat("2+2?", text)}
            sample["scores"] = {"match": {"value": letter}}
            archive.writestr(f"samples/1_epoch_{epoch}.json", json.dumps(sample))
    (tmp_path / "log.eval").write_bytes(packed.getvalue())
    table, _ = read(tmp_path / "log.eval")
    assert counts(table) == (2, 1, 1) and table["model"].to_pylist() == ["m/x"] * 2


def test_rows_may_be_named_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"train": {"x": rows(**PLAIN)}, "other": {"x": rows(**PLAIN)}}))
    table, _ = read(path, rows="other.x[]")
    assert counts(table) == (8, 2, 2)


# --- what plain fields mean


@dataclass
class Fields:
    """Fields of rows, what a row has beside them, and what must come out."""

    named: dict[str, str]
    more: dict[str, Any]
    answers: set[str | None]


MEANINGS = {
    "a completion": Fields({"prompt": "asked", "completion": "text", "reward": "ok"}, {}, {None}),
    "a score": Fields({"prompt": "asked", "response": "text", "score": "ok"}, {}, {None}),
    "a result": Fields({"id": "n", "response": "text", "result": "ok"}, {}, {None}),
    "model_output": Fields(
        {"question": "asked", "model_output": "text", "gt": "gold", "correct": "ok"},
        {},
        {"12", "4"},
    ),
    "an id alone": Fields({"id": "n", "response": "text", "correct": "ok"}, {}, {None}),
    "a custom id": Fields({"custom_id": "n", "response": "text", "reward": "ok"}, {}, {None}),
    "ground truth": Fields({**PLAIN, "ground_truth": "gold"}, {}, {"12", "4"}),
    "the model's answer": Fields(
        {**PLAIN, "answer": "text", "ground_truth": "gold"}, {}, {"12", "4"}
    ),
    "a letter beside": Fields(
        {"prompt": "asked", "response": "text", "is_correct": "ok"}, {"correct": "B"}, {None}
    ),
    "a template": Fields(
        {"query": "asked", "response": "text", "reward": "ok"}, {"prompt": "Answer."}, {None}
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_plain_fields_are_what_they_hold(name: str, tmp_path: Path) -> None:
    case = MEANINGS[name]
    (tmp_path / "r.jsonl").write_text(json_lines([x | case.more for x in rows(**case.named)]))
    table, _ = read(tmp_path / "r.jsonl")
    assert counts(table) == (8, 2, 2)
    assert set(table["answer"].to_pylist()) == case.answers


def test_an_object_of_texts_is_a_prompt(tmp_path: Path) -> None:
    entries = [
        {
            "input": {"question": x["asked"]},
            "output": x["text"],
            "scores": {"exact": float(x["ok"])},
        }
        for x in rollouts()
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    table, _ = read(tmp_path / "r.jsonl")
    assert counts(table) == (8, 2, 2)
    assert table["prompt"].to_pylist() == [x["asked"] for x in rollouts()]


@pytest.mark.parametrize(
    "words", [("right", "wrong"), ("yes", "no"), ("pass", "Fail"), ("1.0", "0.0")]
)
def test_words_are_verdicts(words: tuple[str, str], tmp_path: Path) -> None:
    entries = [
        x | {"correct": words[i % 2]} for i, x in enumerate(rows(prompt="asked", response="text"))
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert counts(read(tmp_path / "r.jsonl")[0]) == (8, 2, 2)


@pytest.mark.parametrize(
    "more",
    [
        {"completion": "something else"},
        {"is_correct": True, "passed": False},
        {"ground_truth": "12", "gold_answer": "13"},
    ],
)
def test_two_fields_of_one_meaning_are_refused(more: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(json_lines([x | more for x in rows(**PLAIN)]))
    with pytest.raises(UnknownRowsError) as caught:
        read(tmp_path / "r.jsonl")
    assert all(repr(name) in str(caught.value) for name in more if name != "passed")


def test_several_rewards_by_name(tmp_path: Path) -> None:
    entries = [
        {"prompt": x["asked"], "response": x["text"]}
        | {"rewards": {"accuracy": float(x["ok"]), "format": 1.0}}
        for x in rollouts()
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert counts(read(tmp_path / "r.jsonl")[0]) == (8, 2, 2)


# --- which rollouts are a group


def test_what_a_user_names_is_final(tmp_path: Path) -> None:
    entries = [
        {"task": x["n"], "messages": chat(f"Please, user {i}.", x["text"]), "reward": x["ok"]}
        for i, x in enumerate(rollouts())
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert counts(read(tmp_path / "r.jsonl", ("group=task",))[0]) == (8, 2, 2)
    assert counts(read(tmp_path / "r.jsonl", group_by=["task"])[0]) == (8, 2, 2)
    table, _ = read(tmp_path / "r.jsonl", ("group=task", "prompt=task"))
    assert set(table["prompt"].to_pylist()) == {"0", "1"}


def test_naming_a_field_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(
        json_lines(rows(question="asked", response="text", reward="ok"))
    )
    table, _ = read(tmp_path / "r.jsonl", ("group=question",))
    assert table["prompt"].to_pylist() == [x["asked"] for x in rollouts()]


def test_a_task_wins_over_what_a_simulated_user_says(tmp_path: Path) -> None:
    entries = [
        {"task_id": x["n"], "trial": i, "reward": float(x["ok"]), "info": {}}
        | {"traj": chat(f"Hello, this is caller {i}.", x["text"])}
        for i, x in enumerate(rollouts())
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert counts(read(tmp_path / "r.jsonl")[0]) == (8, 2, 2)


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_rows_of_different_prompts_never_share_a_group(
    join: bool, named: bool, tmp_path: Path
) -> None:
    """Two tables of one file, rows by number in two files, and labels that two files share."""
    more = {"group": "g"} if named else {}
    table = {"columns": ["prompt", "response", "reward"], "data": [["p", "a", 1], ["q", "b", 0]]}
    (tmp_path / "tables.json").write_text(json.dumps([table, table]))
    for name, prompt in (("a", "p"), ("b", "q"), ("c", "s")):
        entry = {"prompt": prompt, "responses": ["x", "y"], "rewards": [1, 0]} | more
        (tmp_path / f"{name}.jsonl").write_text(json_lines([entry, entry | {"prompt": "t"}]))
    read_table, _ = read(tmp_path, join=join)
    codes, _ = group_codes(read_table)
    prompts = read_table["prompt"].to_pylist()
    of_group: dict[int, set[str]] = {}
    for code, prompt in zip(codes.tolist(), prompts, strict=True):
        of_group.setdefault(code, set()).add(prompt)
    assert all(len(x) == 1 for x in of_group.values())
    assert len({*zip(read_table["group"].to_pylist(), codes.tolist(), strict=True)}) == len(
        of_group
    )


@pytest.mark.parametrize("join", [False, True])
def test_rows_without_a_prompt_are_groups_of_their_own_file(join: bool, tmp_path: Path) -> None:
    for name in "ab":
        entry = {"responses": ["x", "y"], "rewards": [1, 0]}
        (tmp_path / f"{name}.jsonl").write_text(json_lines([entry, entry]))
    assert counts(read(tmp_path, join=join)[0]) == (8, 4, 4)


def test_evaluations_beside_training_are_left_out(tmp_path: Path) -> None:
    entries = [x | {"split": "val" if i % 4 > 1 else "train"} for i, x in enumerate(rows(**PLAIN))]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    table, notes = read(tmp_path / "r.jsonl")
    assert len(table) == 4 and notes.counts["evaluation"] == 4


def test_conditions_are_noted_and_some_refused(tmp_path: Path) -> None:
    entries = [x | {"method": "ab"[i // 2 % 2]} for i, x in enumerate(rows(**PLAIN))]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert read(tmp_path / "r.jsonl")[1].names["conditions"] == ["'method'"]
    assert counts(read(tmp_path / "r.jsonl", group_by=["prompt", "method"])[0]) == (8, 4, 4)
    (tmp_path / "r.jsonl").write_text(json_lines([x | {"iteration": x["method"]} for x in entries]))
    with pytest.raises(InputError):
        readers.read(tmp_path / "r.jsonl")


def test_turns_of_an_episode_in_rows_of_their_own(tmp_path: Path) -> None:
    entries = [
        {"episode": i, "turn": t, "prompt": f"room {t}", "response": f"go {i}", "reward": i * t}
        for i in range(2)
        for t in range(2)
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert read(tmp_path / "r.jsonl")[1].counts["turn_rows"] == 4
    with pytest.raises(InputError):
        readers.read(tmp_path / "r.jsonl")


# --- what the policy wrote


def test_calls_as_json_text_have_no_ids(tmp_path: Path) -> None:
    call = {"id": "call_xyz", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    entries = [
        {"prompt": "p", "reward": i}
        | {
            "completion": [
                {"role": "assistant", "content": f"{i}", "tool_calls": [json.dumps(call)]}
            ]
        }
        for i in range(2)
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert read(tmp_path / "r.jsonl")[0]["response"].to_pylist() == ["0\nf({})", "1\nf({})"]


def test_reasoning_beside_a_response_belongs_to_it(tmp_path: Path) -> None:
    entries = [x | {"reasoning": f"THINK {i}"} for i, x in enumerate(rows(**PLAIN))]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    texts = read(tmp_path / "r.jsonl")[0]["response"].to_pylist()
    assert all(text.startswith(f"THINK {i}\n") for i, text in enumerate(texts))
    # Unless it holds it already.
    held = [x | {"reasoning": "Try"} for x in rows(**PLAIN)]
    (tmp_path / "r.jsonl").write_text(json_lines(held))
    assert read(tmp_path / "r.jsonl")[0]["response"].to_pylist() == [x["text"] for x in rollouts()]


def test_token_ids_that_begin_with_the_prompt_are_noted(tmp_path: Path) -> None:
    entries = [
        x | {"token_ids": [100 * (i // 4), 1, 2, 50 + i], "response": f"Same beginning: {i}"}
        for i, x in enumerate(rows(**PLAIN), start=4)
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert read(tmp_path / "r.jsonl")[1].counts["ids_prompt"] == 1


# --- what is refused, and what is proposed

REFUSED = {
    "one_conversation.json": json.dumps(chat("2+2?", "4") * 2),
    "turns.jsonl": json_lines([{"prompt": "p", "responses": ["a", "b"], "scores": [9, 2]}]),
    "criteria.jsonl": json_lines(
        [{"prompt": "p", "responses": ["a", "b"], "scores": [1, 0], "criteria": ["x", "y"]}]
    ),
    "most_rows_bad.jsonl": json_lines(
        [x | {"reward": "n/a" if i else True} for i, x in enumerate(rows(**PLAIN))]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_group_of_rollouts_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(REFUSED[name])
    with pytest.raises(InputError):
        read(tmp_path / name)


def test_a_proposal_has_been_tried(tmp_path: Path) -> None:
    entries = [
        {
            "state": {
                "log": chat(x["asked"], x["text"]),
                "latest": {"text": "Noted."},
                "solved": x["ok"],
            }
        }
        | {"task": {"task_id": x["n"]}}
        for x in rollouts()
    ]
    (tmp_path / "r.jsonl").write_text(json_lines([{"total": 8}, *entries]))
    proposal = propose(tmp_path / "r.jsonl", entries, ReadOptions(), readers.read)
    assert proposal is not None
    assert "8 of 9 rows: 2 groups, 4 correct, 4 incorrect" in proposal[1]
    assert proposal[0]["response"] == "state.log"
    table, _ = read(tmp_path / "r.jsonl", tuple(f"{k}={x}" for k, x in proposal[0].items()))
    assert counts(table) == (8, 2, 2)


def test_nothing_is_proposed_where_the_texts_are_not_the_policys(tmp_path: Path) -> None:
    entries = [
        {
            "judge_feedback": f"This is fine, number {i}, I say.",
            "passed": x["ok"],
            "task_id": x["n"],
        }
        for i, x in enumerate(rollouts())
    ]
    (tmp_path / "r.jsonl").write_text(json_lines(entries))
    assert propose(tmp_path / "r.jsonl", entries, ReadOptions(), readers.read) is None


NESTED = {
    "camelCase under a name of its own": json.dumps(
        {"testCases": rows(input="asked", actualOutput="text", success="ok"), "stats": {"n": 8}}
    ),
    "a text in an object": json_lines(
        [
            {"prompt": {"raw": x["asked"]}, "response": {"output": x["text"]}, "success": x["ok"]}
            for x in rollouts()
        ]
    ),
    "a list of one text": json_lines(
        [
            {"sample_id": f"s{x['n']}", "prediction": [x["text"]], "correct": x["ok"]}
            for x in rollouts()
        ]
    ),
    "inputs and outputs": json_lines(
        [
            {"inputs": {"question": x["asked"]}, "outputs": {"text": x["text"]}}
            | {"feedback": {"correctness": {"avg": float(x["ok"])}}}
            for x in rollouts()
        ]
    ),
    "words for verdicts": json_lines(
        [
            {"instruction": x["asked"], "response_1": x["text"]}
            | {"label": "correct" if x["ok"] else "incorrect"}
            for x in rollouts()
        ]
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_fields_of_other_names_are_proposed(name: str, tmp_path: Path) -> None:
    path = tmp_path / ("r.json" if NESTED[name].startswith('{"testCases"') else "r.jsonl")
    path.write_text(NESTED[name])
    with pytest.raises(UnknownRowsError) as caught:
        read(path)
    options = shlex.split(str(caught.value).partition("ktae report ")[2].partition("\n")[0])
    table, _ = read(path, tuple(x for x in options[1:] if x != "--field"))
    assert counts(table) == (8, 2, 2)
    assert table["response"].to_pylist() == [x["text"] for x in rollouts()]
