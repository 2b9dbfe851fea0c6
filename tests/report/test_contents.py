"""What a page says: about gaps, suspicious rollouts, samples; and how its data is packed."""

import base64
import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dumps import AGENTS, ROLLOUTS, write_lines
from hypothesis import given
from hypothesis import strategies as st

import ktae
from ktae import InputError
from ktae.estimators import preset
from ktae.evaluation.outputs import Output, to_record
from ktae.grading import Outcome, Verdict
from ktae.report import Inline, ReadOptions, inputs, sampling, show, write_report
from ktae.report.contents import contents
from ktae.report.page import fixed_point_block, varint_block
from ktae.report.summary import BESIDE
from ktae.rollouts import readers
from ktae.rollouts.trained_with import TrainedWith


def unpack(block):
    return zlib.decompress(base64.b64decode(block), -15)


def meta_of(path, tmp_path, rows, **options):
    dump = inputs.load([write_lines(path, rows)])
    return json.loads(unpack(contents(dump, **options).blocks["meta"]))


@pytest.fixture
def meta(tmp_path):
    return lambda rows, **options: meta_of(tmp_path / "r.jsonl", tmp_path, rows, **options)


def flagged(meta):
    """Each suspicious rollout's place and kind, and where to look."""
    kinds = ("overwritten", "answer-stated", "reads-right")
    findings = [x for x in meta["findings"] if x["key"] in kinds]
    return {row: x["key"] for x in findings for row in x["rollouts"]}


def titles(meta):
    return [note["title"] for note in meta["notes"] if note["severe"]]


def without(rows, *names):
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        (without(ROLLOUTS, "reward"), "No rewards"),
        ([row | {"group": i} for i, row in enumerate(ROLLOUTS)], "One rollout a prompt"),
        ([row | {"reward": 1} for row in ROLLOUTS], "Every rollout is right"),
        ([row | {"reward": 0} for row in ROLLOUTS], "Every rollout is wrong"),
        ([*ROLLOUTS[:2], *[r | {"group": 2} for r in ROLLOUTS[2:]]], "No group is mixed"),
        ([*ROLLOUTS, {"group": "sum", "response": "x"}], "1 of 5 rollouts have no reward"),
        ([*ROLLOUTS, {"group": "sum", "reward": 1}], "Rows that could not be used: 1 ("),
        (
            without(ROLLOUTS, "group", "prompt"),
            "Rollouts with neither group nor prompt, each a group of its own: 4",
        ),
        (ROLLOUTS, "No tokenizer, so texts are cut at words"),
        (
            [{"group": 0, "token_ids": [i], "reward": i} for i in (0, 1)],
            "No tokenizer, so tokens have numbers and no text",
        ),
    ],
)
def test_the_page_says_what_it_cannot(meta, rows, title):
    assert any(x.startswith(title) for x in titles(meta(rows)))


def test_a_page_without_rewards_or_tokenizer_has_all_views(open_page, tmp_path):
    path = write_lines(tmp_path / "r.jsonl", without(ROLLOUTS, "reward"))
    write_report(path, tmp_path / "r.html")
    page = open_page(tmp_path / "r.html")
    assert "No rewards" in page.locator("#notes").inner_text()
    for view in ("rollouts", "tokens", "overview"):
        page.click(f"#to-{view}")
        assert len(page.locator("main").inner_text()) > 40
    assert page.locator("#to-training, #to-compare").count() == 0


def test_shared_states_are_in_the_page_where_a_rollout_has_several_turns(tmp_path):
    """Tokens and rollouts are numbered as in the page, from which the first group is left out."""
    away = [{"group": "away", "token_ids": [7] * 40, "reward": 1}] * 4
    single = [{"group": 1, "token_ids": [1, 8], "mask": [1, 0], "reward": i} for i in (0, 1)]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", [*away, *single, *AGENTS])])
    blocks = contents(dump, max_tokens=60).blocks
    meta, vocabulary = (json.loads(unpack(blocks[name])) for name in ("meta", "vocabulary"))
    assert meta["groups"]["shown"] == [0, 1, 1]

    def ids(ranks):
        return [vocabulary["id"][rank] for rank in ranks]

    states = {
        group: [
            (
                ids(state["seen"]),
                state["rollouts"],
                [(ids(x["done"]), x["rollouts"]) for x in state["choices"]],
            )
            for state in of_group
        ]
        for group, of_group in meta["groups"]["states"].items()
    }
    assert states == {
        "2": [
            ([], [2, 3, 4, 5], [([1, 2], [2, 3, 4]), ([5], [5])]),
            ([8, 9], [2, 3, 4], [([3], [2, 3]), ([4], [3, 4])]),
        ]
    }


def test_kinds_of_suspicion(meta):
    overwritten, stated = ROLLOUTS[3], ROLLOUTS[3] | {"response": ROLLOUTS[1]["response"]}
    page = meta([*ROLLOUTS[:2], overwritten, stated, ROLLOUTS[2]])
    assert flagged(page) == {2: "overwritten", 3: "answer-stated"}
    inside = ROLLOUTS[3] | {"response": "the answer is 14 or 4.5 or x4 wait"}
    assert flagged(meta([*ROLLOUTS[:3], inside])) == {}


def test_an_answer_that_the_prompt_asks_for_tells_nothing(meta):
    asked = [ROLLOUTS[2] | {"response": f"try {i} the answer is 4"} for i in range(3)]
    assert flagged(meta(ROLLOUTS)) == {3: "overwritten"}
    assert set(flagged(meta([*ROLLOUTS, *asked])).values()) <= {"reads-right"}


def test_reads_right(meta):
    """One that has all the words of the correct rollouts, and was graded as wrong."""
    rows = [
        *[{"group": 0, "response": f"by the rule x{i} holds", "reward": 1} for i in range(6)],
        *[{"group": 0, "response": f"guess no{i}", "reward": 0} for i in range(6)],
        {"group": 0, "response": "by the rule holds", "reward": 0},
    ]
    page = meta(rows)
    assert flagged(page) == {12: "reads-right"}
    (finding,) = [x for x in page["findings"] if x["key"] == "reads-right"]
    assert "its own verdict counts against them" in finding["why"][0]


def test_a_stated_answer_needs_no_credit_and_no_mixed_group(meta):
    """One group of incorrect rollouts in which one states the answer, among others that do not."""
    others = [{"group": i, "answer": "7", "response": f"no {i}", "reward": 0} for i in range(6)]
    wrong = [row | {"reward": 0} for row in ROLLOUTS[1:3]]
    page = meta([*wrong, *others])
    assert flagged(page) == {0: "answer-stated"}
    (finding,) = [x for x in page["findings"] if x["key"] == "all-wrong-but"]
    assert finding["groups"] == [0]
    # 5 is what the incorrect rollouts say, so its credit is below 0; it is the reference here.
    rows = [row | {"answer": "5"} for row in ROLLOUTS[:3]]
    assert flagged(meta([*rows, *others])) == {2: "answer-stated"}


def test_a_group_full_of_stated_answers_is_told_where_others_state_none(meta):
    others = [{"group": i, "answer": "7", "response": f"no {i}", "reward": 0} for i in range(40)]
    rows = [ROLLOUTS[1] | {"reward": 0}] * 3
    assert len(flagged(meta([*rows, *others], regrade=False))) == 3
    assert flagged(meta(rows, regrade=False)) == {}


def test_settings_of_the_run_come_first(run_folder):
    dump = inputs.load([run_folder])
    assert dump.estimator == preset("paper")
    presets = json.loads(unpack(contents(dump).blocks["meta"]))["presets"]
    assert [entry["name"] for entry in presets] == list(BESIDE)
    chosen = preset("paper", h3=0)
    meta = json.loads(unpack(contents(dump, chosen).blocks["meta"]))
    assert [entry["name"] for entry in meta["presets"][1:]] == list(BESIDE)
    assert meta["presets"][0]["h3"] == 0
    assert any("trained with paper" in note["text"] for note in meta["notes"])


def test_the_demos_own_scorer_grades_a_run_folder(run_folder):
    """Not the general grader, which reads other answers out of the demo's language."""
    graded = json.loads(unpack(contents(inputs.load([run_folder])).blocks["meta"]))["regraded"]
    assert (graded["graded"], graded["total"]) == (72, 0)


def test_what_a_trainer_has_stored_is_taken_and_named(tmp_path):
    """TRL's completions: the estimator, and the reward that says what is correct."""
    rows = [
        {
            "step": 1,
            "prompt": "2?",
            "completion": text,
            "accuracy": float(i),
            "format": 1.0 - i,
            "advantage": 0.0,
        }
        for i, text in enumerate(["a b", "a c"])
    ]
    folder = tmp_path / "completions"
    TrainedWith.of(preset("trigrams"), "accuracy").write(folder)
    pq.write_table(pa.Table.from_pylist(rows), folder / "completions_00001.parquet")
    dump = inputs.load([tmp_path])
    assert dump.estimator == preset("trigrams")
    assert dump.rollouts["correct"].to_pylist() == [0.0, 1.0]
    meta = json.loads(unpack(contents(dump).blocks["meta"]))
    assert meta["presets"][0]["name"] == "trigrams"
    assert any("ktae.json says" in note["text"] for note in meta["notes"])


def test_signals_that_are_no_numbers_are_counted(meta):
    rows = [
        {"group": 0, "token_ids": [1, 2], "reward": 1, "entropy": [0.5, None]},
        {"group": 0, "token_ids": [1, 2], "reward": 0, "entropy": ["high", "low"]},
        {"group": 0, "token_ids": [1, 2], "reward": 0, "entropy": "high"},
        {"group": 0, "token_ids": [1, 2], "reward": 0, "entropy": [[1], [2]]},
        {"group": 0, "token_ids": [1, 2], "reward": 0, "entropy": [1]},
        {"group": 0, "token_ids": [1, 2], "reward": 0, "entropy": [0, 10**400]},
    ]
    page = meta(rows)
    assert page["signals"] == ["entropy"]
    assert "5 rollouts without entropy" in [note["title"] for note in page["notes"]]


def test_own_advantages_are_kept(meta):
    rows = [row | {"advantage": i / 4} for i, row in enumerate(ROLLOUTS)]
    rollouts = meta(rows)["rollouts"]
    assert rollouts["advantage"] == [0, 0.25, 0.5, 0.75]
    grpo = meta(ROLLOUTS)["rollouts"]["advantage"]
    # (1 - .5) / (sd of 1, 1, 0, 0 + 1e-6), sd = sqrt(1/3)
    np.testing.assert_allclose(grpo, [0.866024, 0.866024, -0.866024, -0.866024], rtol=1e-5)


def test_no_reward_is_no_reward_of_zero(meta):
    """GRPO's group mean is over the rollouts that have a reward, as in TRL."""
    rows = [*ROLLOUTS[:2], *without(ROLLOUTS[2:], "reward")]
    page = meta([row | {"step": 1} for row in rows] + [rows[2] | {"step": 2}])
    assert page["rollouts"]["reward"] == [1, 1, None, None, None]
    assert page["rollouts"]["advantage"] == [0, 0, None, None, None]
    assert page["groups"]["reward"] == [1, None]
    curves = {series["name"]: series["values"] for series in page["training"]["series"]}
    assert curves["reward"] == [1, None]


def test_an_undecided_output_of_an_evaluation_has_no_reward():
    output = Output("aime24", "3", 0, "so 4", ("4",))
    table = to_record([output._replace(verdict=Verdict(outcome)) for outcome in Outcome], "m")
    rollouts = json.loads(unpack(contents(inputs.from_record(table)).blocks["meta"]))["rollouts"]
    rewards = dict(zip(map(str, Outcome), rollouts["reward"], strict=True))
    assert rewards == {"correct": 1, "incorrect": 0, "unanswered": 0, "undecided": None}
    assert [advantage is None for advantage in rollouts["advantage"]] == [
        outcome == Outcome.UNDECIDED for outcome in Outcome
    ]


def test_advantages_that_a_dump_lacks_are_not_made_up(meta):
    rows = [row | {"advantage": i / 4} for i, row in enumerate(ROLLOUTS[:3])]
    page = meta([*rows, ROLLOUTS[3]])
    assert page["rollouts"]["advantage"] == [0, 0.25, 0.5, None]
    assert page["rollouts"]["own_advantages"]
    notes = [note["title"] for note in page["notes"]]
    assert "1 of 4 rollouts have no advantage" in notes
    assert "Rollout advantages are computed here" not in notes


def test_sample_says_so(meta, tmp_path):
    rows = [row | {"group": group} for group in range(20) for row in ROLLOUTS]
    full, part = meta(rows), meta(rows, max_tokens=200)
    assert sum(full["groups"]["shown"]) == 20
    assert 1 < sum(part["groups"]["shown"]) < 20
    assert "of 80 rollouts are in this page" in part["notes"][0]["title"]
    assert part["totals"] == full["totals"]
    assert part["groups"]["right"] == full["groups"]["right"]
    assert len(part["rollouts"]["length"]) == 4 * sum(part["groups"]["shown"])


def test_sampling_rule():
    tokens_g, mixed_g = np.full(100, 10), np.arange(100) % 2 == 0
    shown_g = sampling.choose(tokens_g, mixed_g, [99, 97, 95], 80)
    assert shown_g[[99, 97]].all() and not shown_g[95]  # a quarter of 80 tokens
    assert tokens_g[shown_g].sum() == 80
    assert mixed_g[shown_g].sum() == 6
    gaps = np.diff(np.flatnonzero(shown_g & mixed_g))
    assert gaps.max() <= 2 * 100 / 6  # spread over the dump
    assert sampling.choose(tokens_g, mixed_g, [], 1000).all()
    assert sampling.choose(tokens_g, mixed_g, [], 1).sum() == 1


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_varints(numbers):
    content = unpack(varint_block(np.array(numbers, dtype=np.int64)))
    decoded, number, shift = [], 0, 0
    for byte in content:
        number |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            decoded.append(number)
            number, shift = 0, 0
    assert decoded == numbers


def test_fixed_point():
    content = unpack(fixed_point_block(np.array([0, -0.5, -1e9, np.nan, 1 / 3])))
    numbers = np.frombuffer(content, "<i2")
    assert numbers.tolist() == [0, -256, -32767, -32768, 171]


def test_writing_is_all_or_nothing(dump_file, tmp_path):
    with pytest.raises(ktae.InputError, match="cannot write"):
        write_report(dump_file, tmp_path / "none/page.html")
    assert not (tmp_path / "none").exists()


def test_inline_is_sandboxed_and_escaped(dump_file):
    inline = show(dump_file, height=400)
    assert isinstance(inline, Inline)
    html = inline._repr_html_()
    size = len(inline.page.encode())
    assert repr(inline) == f"<ktae report of {size:,} bytes; a notebook shows it>"
    assert 'sandbox="allow-scripts"' in html and 'height="400"' in html
    assert html.count("<") == 2  # the frame's own tag and its end


@pytest.mark.parametrize(
    "options",
    [{"threshold": 0.5}, {"correctness": "x"}, {"fields": {"a": "b"}}, {"pool_models": True}],
)
def test_a_record_in_memory_takes_nothing_that_is_for_files(options, dump_file, tmp_path):
    rollouts = readers.read(dump_file)
    write_report(rollouts, tmp_path / "r.html")
    with pytest.raises(InputError, match=f"{next(iter(options))} says how files are read"):
        write_report(rollouts, tmp_path / "r.html", ReadOptions(**options))


def test_models_and_what_of_a_finding_the_page_holds(tmp_path):
    rows = [
        {"group": g, "response": f"{m} {g}", "reward": m == "x" and g < 3, "model": m}
        for g in range(4)
        for m in ("x", "y", "y")
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)], ReadOptions(pool_models=True))
    found = json.loads(unpack(contents(dump, max_groups=2).blocks["meta"]))
    assert found["models"] == [
        {"name": "x", "rollouts": 4, "known": 4, "right": 3, "length": 3},
        {"name": "y", "rollouts": 8, "known": 8, "right": 0, "length": 3},
    ]
    (copies,) = (x for x in found["findings"] if x["key"] == "copies")
    assert (copies["count"], len(copies["rollouts"])) == (4, 2)
