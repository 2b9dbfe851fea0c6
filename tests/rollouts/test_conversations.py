"""What counts as the policy's of conversations in all their forms (`cases/conversations.jsonl`)."""

import json
from pathlib import Path

import pytest
from saved_outputs import write_rows

from ktae import InputError
from ktae.report import inputs
from ktae.rollouts import readers
from ktae.rollouts.notes import Notes

LINES = Path(__file__).parents[1].joinpath("cases/conversations.jsonl").read_text(encoding="utf-8")
CASES = {case["name"]: case for case in map(json.loads, LINES.splitlines())}
USER, TOOL = {"role": "user", "content": "ASKED"}, {"role": "tool", "content": "TOLD"}


def read(path):
    notes = Notes(strict=True)
    return readers.read(path, notes=notes), notes


@pytest.mark.parametrize("as_text", [None, json.dumps, " {}".format])
@pytest.mark.parametrize("name", CASES)
def test_what_the_assistant_wrote_counts(name, as_text, tmp_path):
    messages, prompt, said, context = (CASES[name][x] for x in list(CASES[name])[1:])
    if as_text and isinstance(messages, dict):
        pytest.skip("an object may be the response itself")
    value = as_text(messages) if as_text else messages
    table, _ = read(write_rows(tmp_path / "r.jsonl", {"group": 1, "reward": 1, "response": value}))
    row = table.to_pylist()[0]
    parts = row["segments"] or [{"role": "policy", "text": row["response"]}]
    assert "".join(part["text"] for part in parts) == row["response"]
    by_policy, by_others = (
        [x["text"].strip("\n") for x in parts if (x["role"] == "policy") == is_policy]
        for is_policy in (True, False)
    )
    assert row["prompt"] == prompt
    assert ("\n".join(by_policy), "\n".join(by_others)) == (said, context)
    dump = inputs.from_record(table)
    ids, mask = (dump.rollouts[x][0].as_py() for x in ("token_ids", "mask"))
    pairs = zip(ids, mask or [True] * len(ids), strict=True)
    words = {dump.texts[i].decode() for i, is_kept in pairs if is_kept}
    assert "SAID" in words and not words & {"TOLD", "MORE", "ASKED", "x1"}


@pytest.mark.parametrize(
    "message",
    [
        USER,
        {"content": "x"},
        {"role": "narrator", "content": "x"},
        {"role": "assistant", "said": "x"},
    ],
)
def test_a_conversation_in_which_the_assistant_says_nothing_is_an_error(message, tmp_path):
    path = write_rows(tmp_path / "r.jsonl", {"group": 1, "reward": 1, "response": [message]})
    with pytest.raises(InputError) as caught:
        read(path)
    assert f"{path}, line 1" in str(caught.value) and "response" in str(caught.value)


EXAMPLE = [USER | {"content": "1+1?"}, {"role": "assistant", "content": "2"}]
TALK = [*EXAMPLE, USER | {"content": "So: 2+3?"}, {"role": "assistant", "content": "5"}]


@pytest.mark.parametrize(
    ("row", "response"),
    [
        ({"prompt": "2+3?"}, "5"),
        ({"prompt": TALK[:3]}, "5"),
        ({"question": "1+1?"}, "2\nSo: 2+3?\n5"),
        ({"prompt": "2+3?", "response": [*EXAMPLE, TOOL | {"content": "2+3?"}]}, "2\n2+3?"),
        ({"prompt": [*EXAMPLE, *TALK[:3]], "response": [*EXAMPLE, *TALK]}, "5"),
    ],
)
def test_examples_belong_to_the_prompt_where_the_row_says_so(row, response, tmp_path):
    path = write_rows(tmp_path / "r.jsonl", {"group": 1, "reward": 1, "response": TALK} | row)
    assert read(path)[0]["response"].to_pylist() == [response]


@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "final", "action": "answer", "content": "5"}',
        '[{"action": "look", "observation": "role", "content": "5"}]',
        '{"role": "user", "content": "5"}',
        '[{"from": "user", "to": "agent", "value": "5"}]',
        '{"output": {"role": "assistant", "content": "fine"}, "answer": "5"}',
    ],
)
def test_json_that_the_policy_was_asked_to_write_is_its_text(answer, tmp_path):
    path = write_rows(tmp_path / "r.jsonl", {"prompt": answer, "reward": 1, "response": answer})
    row = read(path)[0].to_pylist()[0]
    assert row["response"] == answer and "5" in row["prompt"]


def test_prompts_that_differ_in_a_picture_or_a_field_are_two(tmp_path):
    def parts(url):
        part = {"type": "image_url", "image_url": {"url": url}}
        return [{"role": "user", "content": [part, "Which?"]}]

    for pairs in (
        [{"prompt": parts("data:a")}, {"prompt": parts("data:b")}],
        [{"prompt": "Which?", "images": ["a"]}, {"prompt": "Which?", "images": ["b"]}],
        [{"prompt": "Solve.", "question": "2+3?"}, {"prompt": "Solve.", "question": "4*4?"}],
    ):
        rows = [row | {"response": "x", "reward": 1} for row in pairs]
        table = read(write_rows(tmp_path / "r.jsonl", *rows, *rows))[0]
        assert len(table) == 4 and len(set(table["group"].to_pylist())) == 2


def test_what_the_policy_asked_a_search_engine_makes_no_other_problem(tmp_path):
    rows = [{"prompt": [USER], "query": text, "response": text, "reward": 1} for text in "ab"]
    table = read(write_rows(tmp_path / "r.jsonl", *rows))[0]
    assert len(set(table["group"].to_pylist())) == 1


@pytest.mark.parametrize("seen", ["alike", "apart"])
def test_agents_whose_states_are_hardly_shared_are_noted(seen, tmp_path):
    rows = []
    for i in range(12):
        parts = [{"role": "assistant", "content": "look"}]
        for n in range(2):
            told = f"room {n}" + f", at {i}" * (seen == "apart")
            parts += [TOOL | {"content": told}, {"role": "assistant", "content": f"go {n}"}]
        rows.append({"group": i % 3, "response": [USER, *parts], "reward": i % 2})
    notes = read(write_rows(tmp_path / "r.jsonl", *rows))[1]
    assert notes.names["states"] == (["0 of 24"] if seen == "apart" else [])
