"""What counts as the policy's of conversations in all their forms."""

import json

import pytest
from saved_outputs import write_rows

from ktae import InputError
from ktae.report import inputs
from ktae.rollouts import readers
from ktae.rollouts.notes import Notes


def read(path):
    notes = Notes(strict=True)
    return readers.read(path, notes=notes), notes


USER, TOOL = {"role": "user", "content": "ASKED"}, {"role": "tool", "content": "TOLD"}
CALL = {"id": "x1", "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}
CHAT = [
    {"role": "system", "content": "SYSTEM"},
    USER,
    {"role": "assistant", "reasoning_content": "THINK", "content": None, "tool_calls": [CALL]},
    TOOL,
    {"role": "assistant", "content": [{"type": "text", "text": "SAID"}]},
    {"role": "user", "content": "MORE"},
]
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "ASKED"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "THINK"}]},
    {"type": "function_call", "name": "run", "arguments": '{"a": 1}', "call_id": "x1"},
    {"type": "function_call_output", "call_id": "x1", "output": "TOLD"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "SAID"}]},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "ASKED"}]},
    {"role": "model", "parts": [{"text": "THINK", "thought": True}]},
    {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"a": 1}}}]},
    {"role": "function", "parts": [{"functionResponse": "TOLD"}]},
    {"role": "model", "parts": [{"text": "SAID"}]},
]
SHARED_GPT = [
    {"from": "human", "value": "ASKED"},
    {"from": "function_call", "value": "run"},
    {"from": "observation", "value": "TOLD"},
    {"from": "gpt", "value": "SAID"},
]
TURNS = [{"reasoning": "THINK", "action": "run", "observation": "TOLD"}, {"action": "SAID"}]
LANGCHAIN = [
    {"type": "human", "content": "ASKED"},
    {"type": "ai", "content": "", "tool_calls": [{"name": "run", "args": {"a": 1}, "id": "x1"}]},
    {"type": "tool", "content": "TOLD"},
    {"type": "ai", "data": {"content": "SAID"}},
]
ANTHROPIC = [
    {"type": "thinking", "thinking": "THINK"},
    {"type": "server_tool_use", "id": "x1", "name": "run", "input": {"a": 1}},
    {"type": "web_search_tool_result", "content": [{"type": "x", "text": "TOLD"}]},
    {"type": "tool_result", "content": "MORE"},
    {"type": "text", "text": "SAID"},
]
OF_TRL = {
    "role": "assistant",
    **{"content": "SAID", "reasoning_details": [{"type": "reasoning.text", "text": "THINK"}]},
    "tool_calls": json.dumps([CALL]),
}
STEPS = [
    {"source": "system", "message": "SYSTEM"},
    {"source": "user", "message": "ASKED"},
    {
        **{"source": "agent", "message": "", "reasoning_content": "THINK"},
        "tool_calls": [{"tool_call_id": "x1", "function_name": "run", "arguments": {"a": 1}}],
        "observation": {"results": [{"source_call_id": "x1", "content": "TOLD"}]},
    },
    {"source": "agent", "message": "SAID"},
]
EVENTS = [
    {"source": "agent", "action": "system", "args": {"content": "SYSTEM"}},
    {"source": "user", "action": "message", "args": {"content": "ASKED"}, "message": "x1"},
    {"source": "agent", "action": "run", "args": {"a": 1, "thought": "THINK"}, "message": "x1"},
    {"source": "agent", "observation": "run", "content": "TOLD", "message": "x1"},
    {"source": "agent", "action": "finish", "args": {"final_thought": "SAID", "outputs": {}}},
]
ANSWER = {"body": {"object": "response", "output": ITEMS[1:3] + ITEMS[4:]}}
BEDROCK = [
    {"reasoningContent": {"reasoningText": {"text": "THINK", "signature": "x1"}}},
    {"toolUse": {"toolUseId": "x1", "name": "run", "input": {"a": 1}}},
    {"toolResult": {"toolUseId": "x1", "content": [{"text": "TOLD"}]}},
    {"text": "SAID"},
]
VERCEL = [
    {"type": "reasoning", "reasoning": "x1", "redacted": True, "summary": "THINK"},
    {"type": "tool-call", "toolCallId": "x1", "toolName": "run", "input": {"a": 1}},
    {"type": "tool-result", "toolCallId": "x1", "output": {"type": "text", "value": "TOLD"}},
    {"type": "text", "text": "SAID"},
]
SNAKE = [
    {"text": None, "function_call": {"name": "run", "args": {"a": 1}}, "executable_code": None},
    {"text": None, "code_execution_result": {"outcome": "OK", "output": "TOLD"}},
    {"text": "SAID", "function_call": None},
]
OLDER = {"function_call": {"name": "run", "arguments": '{"a": 1}'}}
TWICE = {"role": "assistant", "content": "THINK\nSAID", "thought": "THINK", "action": "x1"}
LOGS = {"type": "logs", "logs": "TOLD"}
BUILT_IN = [{"type": "code_interpreter_call", "code": "run", "outputs": [LOGS]}]
OF_INSPECT = {"id": "x1", "function": "run", "arguments": {"a": 1}, "type": "function"}
INSPECT = [{"role": "assistant", "content": "", "tool_calls": [OF_INSPECT]}, TOOL, CHAT[4]]


@pytest.mark.parametrize(
    ("messages", "prompt", "said", "context"),
    [
        (CHAT, "SYSTEM\nASKED", 'THINK\nrun({"a": 1})\nSAID', "TOLD\nMORE"),
        (CHAT[2:5], None, 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        (ITEMS, "ASKED", 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        (SHARED_GPT, "ASKED", "run\nSAID", "TOLD"),
        (GEMINI, "ASKED", 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        ([USER, CHAT[4] | {"trainable": False}, CHAT[4]], "ASKED\nSAID", "SAID", ""),
        (INSPECT, None, 'run({"a": 1})\nSAID', "TOLD"),
        (TURNS, None, "THINK\nrun\nSAID", "TOLD"),
        (LANGCHAIN, "ASKED", 'run({"a": 1})\nSAID', "TOLD"),
        (
            [{"role": "assistant", "content": ANTHROPIC}],
            *(None, 'THINK\nrun({"a": 1})\nSAID', "TOLD\nMORE"),
        ),
        (OF_TRL, None, 'THINK\nSAID\nrun({"a": 1})', ""),
        (STEPS, "SYSTEM\nASKED", 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        (EVENTS, "SYSTEM\nASKED", 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        (ANSWER, None, 'THINK\nrun({"a": 1})\nSAID', ""),
        ([{"role": "assistant", "content": BEDROCK}], None, 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        ([{"role": "assistant", "content": VERCEL}], None, 'THINK\nrun({"a": 1})\nSAID', "TOLD"),
        ([{"role": "model", "parts": SNAKE}], None, 'run({"a": 1})\nSAID', "TOLD"),
        (
            [{"type": "ai", "content": "SAID", "additional_kwargs": OLDER}],
            *(None, 'SAID\nrun({"a": 1})', ""),
        ),
        ([TWICE], None, "THINK\nSAID", ""),
        (BUILT_IN + ITEMS[-1:], None, "code_interpreter_call(run)\nSAID", "TOLD"),
    ],
)
@pytest.mark.parametrize("as_text", [None, json.dumps, " {}".format])
def test_what_the_assistant_wrote_counts(messages, prompt, said, context, as_text, tmp_path):
    if as_text and messages in (TURNS, STEPS, EVENTS, ANSWER):
        pytest.skip("such lists may be the response itself")
    value = as_text(messages) if as_text else messages
    table, _ = read(write_rows(tmp_path / "r.jsonl", {"group": 1, "reward": 1, "response": value}))
    row = table.to_pylist()[0]
    parts = row["segments"] or [{"role": "policy", "text": row["response"]}]
    assert "".join(part["text"] for part in parts) == row["response"]
    texts = {
        whose: [x["text"].strip("\n") for x in parts if (x["role"] == "policy") == whose]
        for whose in (True, False)
    }
    assert row["prompt"] == prompt
    assert "\n".join(filter(None, texts[True])) == said
    assert "\n".join(filter(None, texts[False])) == context
    dump = inputs.from_record(table)
    ids, mask = (dump.rollouts[x][0].as_py() for x in ("token_ids", "mask"))
    words = {
        dump.texts[i].decode()
        for i, kept in zip(ids, mask or [True] * len(ids), strict=True)
        if kept
    }
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
ASKED_LAST = [*EXAMPLE, USER | {"content": "So: 2+3?"}, {"role": "assistant", "content": "5"}]


@pytest.mark.parametrize(
    ("row", "response", "noted"),
    [
        ({}, "2\nSo: 2+3?\n5", 1),
        ({"prompt": "2+3?"}, "5", 0),
        ({"prompt": ASKED_LAST[:3]}, "5", 0),
        ({"question": "1+1?"}, "2\nSo: 2+3?\n5", 0),
        (
            {
                "prompt": "Solve.",
                "response": [{"role": "system", "content": "Solve."}, *ASKED_LAST],
            },
            *("2\nSo: 2+3?\n5", 1),
        ),
        ({"prompt": "2+3?", "response": [*EXAMPLE, TOOL | {"content": "2+3?"}]}, "2\n2+3?", 0),
        (
            {"prompt": [*EXAMPLE, *ASKED_LAST[:3]], "response": [*EXAMPLE, *ASKED_LAST]},
            *("5", 0),
        ),
        ({"response": [*ASKED_LAST[:2], TOOL, *ASKED_LAST[2:]]}, "2\nTOLD\nSo: 2+3?\n5", 0),
        ({"response": [EXAMPLE[0], EXAMPLE[1] | {"is_demo": True}, *ASKED_LAST[2:]]}, "5", 0),
    ],
)
def test_examples_belong_to_the_prompt_where_the_row_says_so(row, response, noted, tmp_path):
    row = {"group": 1, "reward": 1, "response": ASKED_LAST} | row
    table, _notes = read(write_rows(tmp_path / "r.jsonl", row))
    assert table["response"].to_pylist() == [response]


@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "final", "action": "answer", "content": "5"}',
        '[{"action": "look", "observation": "role", "content": "5"}]',
        '{"role": "assistant", "content": "fine", "answer": "5"}',
        '{"role": "user", "content": "5"}',
        '[{"from": "A", "to": "B", "value": "5"}]',
        '[{"from": "user", "to": "agent", "value": "5"}]',
        '{"output": {"role": "assistant", "content": "fine"}, "answer": "5"}',
        '{"type": "agent", "content": "fine", "name": "5"}',
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


def test_what_differs_by_rollout_makes_no_other_problem(tmp_path):
    """Such as where a picture lies, or what the policy asked a search engine."""
    rows = [
        {"prompt": [{"role": "user", "content": [part, "Q"]}], "query": text, "response": text}
        for text in ("a", "b")
        for part in [{"type": "image_url", "image_url": {"url": f"https://x/1?key={text}"}}]
    ]
    path = write_rows(tmp_path / "r.jsonl", *(row | {"reward": 1} for row in rows))
    assert len(set(read(path)[0]["group"].to_pylist())) == 1


def test_nothing_that_the_policy_wrote_is_lost(tmp_path):
    calls = [CALL, CALL, CALL | {"function": {"name": "set", "arguments": {"x": None, "y": 0}}}]
    said = {"role": "assistant", "reasoning": "5", "content": "it is 5", "tool_calls": calls}
    row = {"group": 1, "reward": 1, "response": [said]}
    text = '5\nit is 5\nrun({"a": 1})\nrun({"a": 1})\nset({"x": null, "y": 0})'
    assert read(write_rows(tmp_path / "r.jsonl", row))[0]["response"].to_pylist() == [text]


def test_a_text_of_numpy_s_is_a_conversation(tmp_path):
    text = "[{'role': 'assistant', 'content': 'SAID'}\n {'role': 'tool', 'content': 'TOLD'}]"
    (tmp_path / "r.csv").write_text(f'group,response,reward\n1,"{text}",1\n')
    assert read(tmp_path / "r.csv")[0]["segments"].to_pylist() == [
        [{"role": "policy", "text": "SAID"}, {"role": "tool", "text": "\nTOLD"}]
    ]


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
