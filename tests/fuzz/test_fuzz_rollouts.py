"""Every reader of rollouts: plain rows, TRL's and verl's dumps, our own record; any file."""

import pyarrow as pa
import pyarrow.parquet as pq
from fuzzing import (
    columns,
    deep_values,
    fuzz,
    numbers,
    only_input_errors,
    row_files,
    rows,
    texts,
)
from hypothesis import given
from hypothesis import strategies as st

from ktae.report import ReadOptions, inputs
from ktae.rollouts import readers, record
from ktae.rollouts.notes import Notes

SMALL = st.integers(0, 3)
REWARDS = st.sampled_from([0, 1, 0.0, 1.0, 0.5, -1.0, None]) | numbers
PLAIN = {
    "group": SMALL | texts,
    "response": texts,
    "reward": REWARDS,
    "prompt": texts,
    "step": SMALL,
}
OTHERS = ("token_ids", "mask", "correct", "advantage", "problem", "answer", "model", "source", "x")
TRL = {
    "step": SMALL,
    "prompt": texts | st.lists(st.fixed_dictionaries({"role": texts, "content": texts})),
    "completion": texts | st.lists(st.fixed_dictionaries({"content": texts})),
    "accuracy": REWARDS,
    "advantage": numbers,
}
UID = st.sampled_from(["p_0_0", "pad" + "0" * 32 + "_0_0", "", "a_b", "1_2_3"]) | texts
VERL = {"step": SMALL, "input": texts, "output": texts, "score": REWARDS, "gts": texts, "uid": UID}
IDS = {
    "group": SMALL,
    "reward": REWARDS,
    "token_ids": st.lists(st.integers(-1, 2**31), max_size=5),
    "mask": st.lists(st.integers(0, 1), max_size=5) | st.none(),
    "correct": st.sampled_from([0, 1, True, None, float("nan"), 0.5]),
}
ROLES = st.sampled_from(["user", "assistant", "tool", "system"]) | texts
MESSAGES = st.lists(
    st.fixed_dictionaries({"content": texts})
    | st.fixed_dictionaries(
        {"role": ROLES, "content": texts | st.none() | deep_values},
        optional={"tool_calls": deep_values, "reasoning_content": texts, "type": texts},
    )
    | st.fixed_dictionaries({"type": st.sampled_from(["reasoning", "x_call", "x_output"])})
    | st.fixed_dictionaries({"action": texts}, optional={"observation": texts | deep_values}),
    max_size=3,
)
TOKENS = st.lists(st.integers(0, 9), max_size=4)
MASKS = st.lists(st.booleans(), max_size=4)
METRICS = st.dictionaries(st.sampled_from(["acc", "exact_match", "x"]), REWARDS, max_size=2)
SLIME = {
    "prompt": texts | MESSAGES,
    "tokens": TOKENS,
    "response_length": SMALL,
    "response": texts,
    "reward": REWARDS | METRICS,
}
NEMO_RL = {
    "content": st.lists(texts, max_size=2) | texts,
    "rewards": st.lists(REWARDS, max_size=2),
    "idx": SMALL,
    "token_ids": st.lists(TOKENS, max_size=2),
    "token_loss_mask": st.lists(MASKS, max_size=2),
    "input_lengths": st.lists(SMALL, max_size=1),
}
NODE = {
    "parent": SMALL | st.none(),
    "message": st.fixed_dictionaries({"role": texts, "content": texts | MESSAGES}),
    "sampled": st.booleans(),
    "token_ids": TOKENS,
    "mask": MASKS,
}
TRACE = {
    "nodes": st.lists(rows(NODE, ("advantages", "logprobs")), max_size=3),
    "rewards": st.dictionaries(texts, rows({"score": REWARDS}, ("weight",)), max_size=2),
    "task": st.fixed_dictionaries({"data": METRICS}) | deep_values,
}
TRACES = {
    "task": st.fixed_dictionaries({"key": texts}),
    "traces": st.lists(rows(TRACE, ("agent",)), max_size=2),
}
RESULTS = {"example_id": SMALL, "completion": texts | MESSAGES, "reward": REWARDS}
LM_EVAL = {
    "doc_id": SMALL,
    "doc": METRICS,
    "resps": st.lists(st.lists(texts, max_size=2), max_size=2),
    "metrics": st.lists(st.sampled_from(["acc", "x"]), max_size=2),
    "acc": REWARDS,
}
LIGHTEVAL = {
    "doc": st.fixed_dictionaries({"query": texts, "choices": TOKENS, "gold_index": SMALL}),
    "model_response": st.fixed_dictionaries({"text": st.lists(texts, max_size=2)}),
    "metric": METRICS,
}
NESTED = {
    "group": SMALL,
    "responses": st.lists(texts, max_size=2),
    "rewards": st.lists(REWARDS, max_size=2),
}
COLUMNS = {
    "global_step": st.lists(SMALL, max_size=2),
    "prompt": st.lists(texts, max_size=2),
    "responses": st.lists(texts, max_size=2),
    "scores": st.lists(REWARDS, max_size=2),
}
ATROPOS = {
    "tokens": st.lists(TOKENS, max_size=2),
    "masks": st.lists(st.lists(st.integers(-100, 9), max_size=4), max_size=2),
    "scores": st.lists(REWARDS, max_size=2),
}
GYM = {
    "responses_create_params": st.fixed_dictionaries({"input": texts | MESSAGES}),
    "response": st.fixed_dictionaries({"output": MESSAGES | deep_values}),
    "reward": REWARDS,
}
INSPECT = {
    "messages": MESSAGES,
    "scores": st.dictionaries(texts, st.fixed_dictionaries({"value": texts | REWARDS}), max_size=2),
    "epoch": SMALL,
    "input": texts,
}
SKYRL = {"input_prompt": texts, "output_response": texts, "score": REWARDS | st.lists(REWARDS)}
TALKS = {"group": SMALL, "response": MESSAGES, "reward": REWARDS | st.sampled_from(["C", "x"])}
OTHER_TOOLS = (
    rows(COLUMNS, ("id", "ground_truth", "tag"))
    | rows(ATROPOS, ("messages",))
    | rows(GYM, ("_ng_task_index",))
    | rows(INSPECT, ("id", "target"))
    | rows(SKYRL, ("env_extras", "data_source"))
    | rows(TALKS, ("prompt", "token_ids", "mask"))
    | rows(SLIME, ("group_index", "loss_mask", "label"))
    | rows(NEMO_RL, ("advantages", "generation_logprobs"))
    | rows(TRACES, ("run", "group", "env"))
    | rows(RESULTS, ("task", "trajectory", "prompt"))
    | rows(LM_EVAL, ("arguments", "target", "filter"))
    | rows(LIGHTEVAL, ("x",))
    | rows(NESTED, ("samples", "rollouts", "score"))
)
ROWS = (
    rows(PLAIN, OTHERS)
    | rows(TRL, ("reward_func", "correct", "uid"))
    | rows(VERL, ("acc", "is_padding", "extra"))
    | rows(IDS, OTHERS)
    | OTHER_TOOLS
    | deep_values
)
NAMES = sorted({*PLAIN, *OTHERS, *TRL, *VERL, *IDS})
PATHS = st.sampled_from(
    [
        "response",
        "input",
        "a.b",
        "prompt",
        "reward",
        "score",
        "samples.0.x",
        "responses[]",
        "x[][-1]",
    ]
)


@fuzz(200)
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


@fuzz(120)
@given(
    table=columns([field.name for field in record.SCHEMA], 3),
    version=st.sampled_from([b"1", b"1", b"1", b"2", b"\xff", b""]),
)
def test_a_record_of_any_columns(table, version, scratch):
    """A file that claims to be a record, whatever its columns are."""
    path = scratch / "record.parquet"
    try:
        pq.write_table(table.replace_schema_metadata({record.VERSION_KEY: version}), path)
    except (pa.ArrowException, ValueError):
        return
    for read in (record.read_record, lambda path: readers.read([path])):
        with only_input_errors():
            read(path)
