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
ROWS_OF_TOOLS = [
    *(row for tool in tools.TOOLS for row in tools.rows(tool)[:1]),
    {"group": 1, "response": "x", "reward": 1, "prompt": "p", "step": 1, "answer": "4"},
    {"group": "a", "response": TALK, "reward": "C", "token_ids": [1]},
    {"group": "a", "token_ids": [1, 2], "mask": [1, 0], "reward": 0.5, "correct": None},
    {"step": 1, "prompt": [USER], "completion": TALK, "accuracy": 1.0, "advantage": 0.5, "ids": 3},
    {"x": [{"y": {"z": "text"}}]},
]


OTHERS = (
    deep_values | st.sampled_from([0, 1, None, "", "C"]) | st.builds(copy.deepcopy, st.just(TALK))
)


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
PATHS = st.sampled_from(["response", "input", "a.b", "reward", "samples.0.x", "responses[]"])
FIELDS = st.dictionaries(st.sampled_from(["response", "group", "reward", "token_ids"]), PATHS)


@fuzz(150)
@given(file=row_files(ROWS), fields=st.just({}) | FIELDS)
def test_a_reader_reads_or_says_what_is_wrong(file, fields, scratch):
    """Strictly, and as `ktae report` reads, down to the words that are shown."""
    path = scratch / file[0]
    path.write_bytes(file[1])
    options = ReadOptions(fields=fields)
    with only_input_errors() as messages:
        table = readers.read([path], options)
        assert table.schema.equals(record.SCHEMA)
    assert all(message.startswith((str(path), f"cannot read {path}")) for message in messages)
    with only_input_errors():
        table = readers.read([path], options, notes=Notes())
        assert len(inputs.from_record(table).rollouts) == len(table) > 0
