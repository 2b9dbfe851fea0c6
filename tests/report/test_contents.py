"""What a page says: about gaps, suspicious rollouts and samples."""

import numpy as np
import pytest
from dumps import ROLLOUTS, meta_of
from saved_outputs import write_lines

from ktae import InputError
from ktae.estimators import preset
from ktae.report import ReadOptions, inputs, sampling, write_report
from ktae.report.contents import BESIDE
from ktae.rollouts import readers
from ktae.rollouts.trained_with import TrainedWith


@pytest.fixture
def meta(tmp_path):
    return lambda rows, **options: meta_of(
        inputs.load([write_lines(tmp_path / "r.jsonl", rows)]), **options
    )


def flagged(meta):
    """Each suspicious rollout's place and kind, and where to look."""
    kinds = ("overwritten", "answer-stated")
    findings = [x for x in meta["findings"] if x["key"] in kinds]
    return {row: x["key"] for x in findings for row in x["rollouts"]}


def without(rows, *names):
    return [{k: v for k, v in row.items() if k not in names} for row in rows]


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([row | {"group": i} for i, row in enumerate(ROLLOUTS)], "One rollout a prompt"),
        ([*ROLLOUTS[:2], *[r | {"group": 2} for r in ROLLOUTS[2:]]], "No group is mixed"),
        ([*ROLLOUTS, {"group": "sum", "response": "x"}], "1 of 5 rollouts have no reward"),
        ([*ROLLOUTS, {"group": "sum", "reward": 1}], "Rows that could not be used: 1 ("),
    ],
)
def test_the_page_says_what_it_cannot(meta, rows, title):
    severe = [note["title"] for note in meta(rows)["notes"] if note["severe"]]
    assert any(x.startswith(title) for x in severe)


def test_a_page_without_rewards_or_tokenizer_has_all_views(page_of):
    page = page_of(without(ROLLOUTS, "reward"), "view=overview")
    assert "No rewards" in page.locator("#notes").inner_text()
    for view in ("rollouts", "tokens", "overview"):
        page.click(f"#to-{view}")
        assert len(page.locator("main").inner_text()) > 40
    assert page.locator("#to-training, #to-compare").count() == 0


def test_kinds_of_suspicion(meta):
    overwritten, stated = ROLLOUTS[3], ROLLOUTS[3] | {"response": ROLLOUTS[1]["response"]}
    page = meta([*ROLLOUTS[:2], overwritten, stated, ROLLOUTS[2]])
    assert flagged(page) == {2: "overwritten", 3: "answer-stated"}
    inside = ROLLOUTS[3] | {"response": "the answer is 14 or 4.5 or x4 wait"}
    assert flagged(meta([*ROLLOUTS[:3], inside])) == {}
    # What follows speaks less for a right answer than what is before, but not against it.
    ends = " as he or she said"
    right = [ROLLOUTS[0] | {"response": "the answer is 4" + ends * (i < 3)} for i in range(4)]
    wrong = [ROLLOUTS[2] | {"response": f"no {i}"} for i in range(3)]
    like_right = ROLLOUTS[3] | {"response": "the answer is 4" + ends}
    assert flagged(meta([*right, *wrong, like_right])) == {7: "answer-stated"}
    # Where the prompt asks for the answer, it tells nothing.
    asked = [ROLLOUTS[2] | {"response": f"try {i} the answer is 4"} for i in range(3)]
    assert flagged(meta([*ROLLOUTS, *asked])) == {}


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
    # A group full of stated answers is told where others state none.
    rows = [ROLLOUTS[1] | {"reward": 0}] * 3
    assert len(flagged(meta([*rows, *(others * 6)], regrade=False))) == 3
    assert flagged(meta(rows, regrade=False)) == {}


def test_a_run_folder_has_its_own_settings_and_scorer(run_folder):
    """Not the general grader, which reads other answers out of the demo's language."""
    dump = inputs.load([run_folder])
    assert dump.estimator == preset("paper")
    meta = meta_of(dump)
    assert dump.grader == "demo" and meta["regraded"] is None
    assert [entry["name"] for entry in meta["presets"]] == list(BESIDE)
    chosen = preset("paper", h3=0)
    meta = meta_of(dump, chosen)
    assert [entry["name"] for entry in meta["presets"][1:]] == list(BESIDE)
    assert meta["presets"][0]["h3"] == 0
    assert any("trained with paper" in note["text"] for note in meta["notes"])


def test_signals_that_are_no_numbers_are_counted(meta):
    entropies = ([0.5, None], ["high", "low"], "high", [[1], [2]], [1], [0, 10**400])
    row = {"group": 0, "token_ids": [1, 2], "reward": 1}
    page = meta([row | {"entropy": entropy} for entropy in entropies])
    assert page["signals"] == ["entropy"]
    assert "5 rollouts without entropy" in [note["title"] for note in page["notes"]]


def test_advantages_are_the_dump_s_or_grpo_s(meta):
    rows = [row | {"advantage": i / 4} for i, row in enumerate(ROLLOUTS[:3])]
    page = meta([*rows, ROLLOUTS[3]])
    assert page["rollouts"]["advantage"] == [0, 0.25, 0.5, None]
    notes = [note["title"] for note in page["notes"]]
    assert page["rollouts"]["own_advantages"] and "1 of 4 rollouts have no advantage" in notes
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


def test_a_record_in_memory_takes_nothing_that_is_for_files(dump_file, tmp_path):
    rollouts = readers.read(dump_file)
    write_report(rollouts, tmp_path / "r.html")
    with pytest.raises(InputError, match="threshold says how files are read"):
        write_report(rollouts, tmp_path / "r.html", ReadOptions(threshold=0.5))


def test_what_a_trainer_has_stored_is_taken_and_named(tmp_path):
    TrainedWith.of(preset("trigrams")).write(tmp_path)
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", ROLLOUTS)])
    assert dump.estimator == preset("trigrams")
    meta = meta_of(dump)
    assert meta["presets"][0]["name"] == "trigrams"
    assert any("ktae.json says" in note["text"] for note in meta["notes"])


def test_models_and_what_of_a_finding_the_page_holds(tmp_path):
    rows = [
        {"group": g, "response": f"{m} {g}", "reward": m == "x" and g < 3, "model": m}
        for g in range(4)
        for m in ("x", "y", "y")
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)], ReadOptions(pool_models=True))
    meta = meta_of(dump, max_groups=2)
    numbers = [tuple(model.values()) for model in meta["models"]]
    assert numbers == [("x", 4, 4, 3, 3), ("y", 8, 8, 0, 3)]
    (copies,) = (x for x in meta["findings"] if x["key"] == "copies")
    assert (copies["count"], len(copies["rollouts"])) == (4, 2)
