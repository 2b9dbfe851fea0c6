"""How the fuzz tests run, and what files of rows may look like. Each takes the same hundred or so
inputs in every run; with FUZZ_EXAMPLES (`make fuzz EXAMPLES=100000`) that number of new ones."""

import contextlib
import gzip
import json
import os
import signal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ktae import InputError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 0)
HANG_SECONDS = 30
"""Of processor time, for an input that takes milliseconds: a busy machine makes no test fail."""


def fuzz(examples, cost=1):
    """The settings of a test of `examples` inputs, or FUZZ_EXAMPLES by an input's `cost`."""
    return settings(
        max_examples=max(1, EXAMPLES // cost) if EXAMPLES else examples,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def no_hang():
    """End a block that takes too long."""

    def stop(*_):
        raise TimeoutError(f"an input took more than {HANG_SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def only_input_errors():
    """What the block raises is an `InputError`; yields a list, which then holds its message."""
    messages = []
    with no_hang():
        try:
            yield messages
        except InputError as error:
            messages.append(str(error))
            assert messages[0], "an InputError without a message"


FRAGMENTS = [
    *(r"\boxed{", "}", "{", "$", "$$", r"\(", r"\)", r"\[", r"\]", r"\frac", r"\sqrt", r"\pm"),
    *("answer", "Answer:", "the answer is ", "#### ", "<answer>", "</answer>", '"answer": "', "\\"),
    *(r"\text{", r"\%", "%", ",", ";", ":", ".", "=", "(", ")", "[", "]", "-", "+", "/", "*", "_"),
    *("0", "1", "12", "007", "3.14", "1e9", "1,000", "x", "pi", "inf", "nan", "None", "and"),
    *(" ", "\n", "\t", "\r\n", "\x00", "\x1b[2J", "\ud800", "\udfff", "\u202e", "é", "漢"),
    *("'", '"', "`", "<script>", "👩‍👩‍👧", "&amp;", "{{", "/", "../", "~", "∞", "²", "½", "−", "٣"),
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join) | st.text(max_size=20)
LARGE = [10**400, -(10**19), 2**31, 2**63, 2**64, 0.5, 1e308, -0.0]
numbers = st.integers(-3, 20) | st.integers() | st.sampled_from(LARGE) | st.floats()


values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
deep_values = values | st.sampled_from([20, 200, 400, 480, 900]).map(
    lambda n: json.loads("[" * n + "]" * n)
)


@st.composite
def rows(draw, plausible, others=()):
    """Rows with the fields `plausible` (strategies by name), most of the time; some are left out,
    some hold anything, and there may be `others`."""
    names = st.sampled_from([*plausible, *others])
    fields = {name: draw(strategy) for name, strategy in plausible.items()}
    if draw(st.booleans()):
        fields |= {name: draw(deep_values) for name in draw(st.lists(names, max_size=3))}
        for name in draw(st.lists(names, max_size=2)):
            fields.pop(name, None)
    return fields


@st.composite
def mutated(draw, content):
    """Bytes like `content`, of which some may be cut off, replaced, repeated or put in."""
    for _ in range(draw(st.integers(1, 4))):
        at, some = draw(st.integers(0, len(content))), draw(st.binary(min_size=1, max_size=8))
        new = draw(st.sampled_from([b"", some, content[at : at + 64] * 3]))
        content = content[:at] + new + content[draw(st.sampled_from([at, at + 8, len(content)])) :]
    return content


def as_json(content, ascii_only):
    try:
        text = json.dumps(content, ensure_ascii=ascii_only)
    except RecursionError:  # deeper than Python can write
        text = "[" * 3000 + "]" * 3000
    return text.encode(errors="surrogatepass") + b"\n"


def parquet(content):
    """`content`, a list of rows, as Parquet where it fits into columns."""
    sink = pa.BufferOutputStream()
    # Arrow's own recursion over deeper lists fails at a depth of its choice, or ends the process.
    with contextlib.suppress(Exception):
        if "[" * 90 not in json.dumps(content):
            pq.write_table(pa.Table.from_pylist(content), sink)
            return sink.getvalue().to_pybytes()
    return b"PAR1"


@st.composite
def row_files(draw, row):
    """The name and the bytes of a file of rows, in any format that is read; damaged at times."""
    content = draw(st.lists(row, max_size=5))
    if draw(st.booleans()):
        ascii_only = draw(st.booleans())
        name, data = "r.jsonl", b"".join(as_json(x, ascii_only) for x in content)
    else:
        name, data = "r.parquet", parquet(content)
    if draw(st.integers(0, 3)) == 0:
        data = draw(mutated(data))
    if draw(st.integers(0, 3)) == 0:
        name, data = name + ".gz", draw(mutated(gzip.compress(data, 1, mtime=0)))
    return name, data
