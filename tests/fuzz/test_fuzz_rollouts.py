"""Every reader of rollouts: plain rows, TRL's and verl's dumps, our own record; any file."""

import copy

from fuzzing import deep_values, fuzz, only_input_errors, row_files
from hypothesis import given
from hypothesis import strategies as st

from ktae.report import ReadOptions, inputs
from ktae.rollouts import readers, record
from ktae.rollouts.notes import Notes

USER, SAID = {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}
TALK = [USER, SAID | {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]
TALK += [{"role": "tool", "content": "TOLD"}, {"type": "reasoning", "summary": [{"text": "x"}]}]
NODE = {"parent": 0, "message": SAID, "sampled": True, "token_ids": [1, 2], "mask": [True, False]}
IDS = {"token_ids": [[1, 2]], "token_loss_mask": [[0, 1]], "advantages": [[0.5, 0.5]]}
UID = {"step": 1, "input": "p", "score": 1}
ROWS_OF_TOOLS = [
    {
        "group": 1,
        "response": "x",
        "reward": 1,
        "prompt": "p",
        "step": 1,
        "answer": "4",
        "model": "m",
    },
    {"group": "a", "token_ids": [1, 2], "mask": [1, 0], "reward": 0.5, "correct": None},
    {"group": "a", "response": TALK, "reward": "C", "token_ids": [1]},
    {"response": [{"action": "x", "observation": {"a": 1}}], "reward": 1, "question": "q"},
    {"step": 1, "prompt": [USER], "completion": TALK, "accuracy": 1.0, "advantage": 0.5, "ids": 3},
    UID | {"output": "o", "gts": "4", "acc": True, "uid": "p_0_0"},
    UID | {"output": "", "input": "", "uid": f"pad{'0' * 32}_0_0"},
    {
        "prompt": "p",
        "tokens": [1, 2, 3],
        "response_length": 2,
        "response": "x",
        "reward": {"acc": 1},
    },
    {"content": [["p", "r"]], "rewards": [1], "idx": 1, "input_lengths": [2]} | IDS,
    {"task": {"key": "k"}, "traces": [{"nodes": [NODE, NODE], "rewards": {"r": {"score": 1}}}]},
    {"example_id": 1, "completion": [SAID], "reward": 1.0, "trajectory": [{"tokens": {}}]},
    {
        "doc_id": 1,
        "doc": {},
        "resps": [["a"]],
        "metrics": ["acc"],
        "acc": 1.0,
        "arguments": [["q"]],
    },
    {"doc": {"query": "q", "choices": ["4"], "gold_index": 0}, "metric": {"em": 1}}
    | {"model_response": {"text": ["4"], "output_tokens": [[1]]}},
    {"messages": TALK, "scores": {"m": {"value": "C"}}, "epoch": 1, "input": "q", "id": 1},
    {"model_output": ["4", "5"], "gt": ["4", "4"], "reward": [1, 0], "task_name": "aime"},
    {"group": 1, "responses": ["a", "b"], "rewards": [1, 0]},
    {"query": ["p", "q"], "samples": [{"response": "a"}, {"response": "b"}], "scores": [1, 0]},
    {"global_step": [1, 1], "prompt": ["p", "q"], "responses": ["a", "b"], "scores": [1, 0]},
    {"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [1, 0]},
    {"responses_create_params": {"input": [USER]}, "response": {"output": TALK}, "reward": 1.0},
    {"input_prompt": "p", "output_response": "r", "score": [0, 1], "data_source": "x"},
    {"results": [{"question": "q", "completions": [{"full_model_response": "a", "score": 1}]}]},
    {"trajectories": [{"messages": [USER, {"message": SAID}], "reward": 1}]},
    {"x": [{"y": {"z": "text"}}]},
]


@st.composite
def changed(draw):
    """A row of a tool, in which up to three values anywhere are others, or gone."""
    row = copy.deepcopy(draw(st.sampled_from(ROWS_OF_TOOLS)))
    for _ in range(draw(st.integers(0, 3))):
        inside, inner = None, row
        while isinstance(inner, dict | list) and inner and (inside is None or draw(st.booleans())):
            inside = inner
            key = draw(
                st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner)))
            )
            inner = inside[key]
        if inside and draw(st.booleans()):
            inside[key] = draw(deep_values | st.sampled_from([0, 1, None, "", "C", TALK]))
        elif inside:
            del inside[key]
    return row


ROWS = changed() | deep_values
NAMES = sorted({name for row in ROWS_OF_TOOLS for name in row})
PATHS = st.sampled_from(
    [*("response", "input", "a.b", "reward", "score"), *("samples.0.x", "responses[]", "x[][-1]")]
)


@fuzz(100)
@given(file=row_files(ROWS, NAMES), correctness=st.none() | st.sampled_from(["accuracy", "x"]))
def test_a_reader_reads_or_says_what_is_wrong(file, correctness, scratch):
    name, data = file
    path = scratch / name
    path.write_bytes(data)
    with only_input_errors() as messages:
        table = readers.read([path], ReadOptions(correctness=correctness))
        assert table.schema.equals(record.SCHEMA)
        record.conform(table)
    assert all(message.startswith((str(path), f"cannot read {path}")) for message in messages)


@fuzz(100)
@given(
    file=row_files(ROWS, NAMES),
    fields=st.just({})
    | st.dictionaries(st.sampled_from(["response", "group", "reward", "token_ids"]), PATHS),
)
def test_a_tolerant_reader_counts_what_it_leaves_out(file, fields, scratch):
    """As `ktae report` and `ktae permutation-test` read, down to the words that are shown."""
    name, data = file
    path = scratch / name
    path.write_bytes(data)
    with only_input_errors():
        table = readers.read([path], ReadOptions(fields=fields), notes=Notes())
        dump = inputs.from_record(table)
        assert len(dump.rollouts) == len(table) > 0
