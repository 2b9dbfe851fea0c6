"""Every reader of rollouts: plain rows, TRL's and verl's dumps, our own record; any file."""

import copy

import tools
from fuzzing import deep_values, fuzz, only_input_errors, row_files
from hypothesis import given
from hypothesis import strategies as st

from ktae.report import inputs
from ktae.rollouts import readers, record
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions

USER, SAID = {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}
TALK = [USER, SAID | {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]
TALK += [{"role": "tool", "content": "TOLD"}, {"type": "reasoning", "summary": [{"text": "x"}]}]
OWN = {"group": 1, "response": "x", "reward": 1, "prompt": "p", "step": 1, "answer": "4"}
UID = {"step": 1, "input": "p", "score": 1}
ROWS_OF_TOOLS = [
    *(row for tool in tools.TOOLS for row in tools.rows(tool)[:1]),
    OWN | {"model": "m"},
    {"group": "a", "token_ids": [1, 2], "mask": [1, 0], "reward": 0.5, "correct": None},
    {"group": "a", "response": TALK, "reward": "C", "token_ids": [1]},
    {"response": [{"action": "x", "observation": {"a": 1}}], "reward": 1, "question": "q"},
    {"step": 1, "prompt": [USER], "completion": TALK, "accuracy": 1.0, "advantage": 0.5, "ids": 3},
    UID | {"output": "o", "gts": "4", "acc": True, "uid": "p_0_0"},
    UID | {"output": "", "input": "", "uid": f"pad{'0' * 32}_0_0"},
    {"messages": TALK, "scores": {"m": {"value": "C"}}, "epoch": 1, "input": "q", "id": 1},
    {"responses_create_params": {"input": [USER]}, "response": {"output": TALK}, "reward": 1.0},
    {"group": 1, "responses": ["a", "b"], "rewards": [1, 0]},
    {"query": ["p", "q"], "samples": [{"response": "a"}, {"response": "b"}], "scores": [1, 0]},
    {"x": [{"y": {"z": "text"}}]},
]


OTHERS = (
    deep_values | st.sampled_from([0, 1, None, "", "C"]) | st.builds(copy.deepcopy, st.just(TALK))
)
"""A row is changed in place, and may be changed inside of what was put in."""


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
            inside[key] = draw(OTHERS)
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
