"""What a page says first, and that it is true."""

import numpy as np
import pytest
from dumps import ROLLOUTS, finding, graded_row, page_data, without
from saved_outputs import write_lines

from ktae.report import inputs
from ktae.report.changes import changes, largest_change
from ktae.report.frame import frame_of

grading = pytest.importorskip("math_verify", reason="grading needs the extra 'eval'")


def test_paid_without_an_answer_comes_first(page):
    good = [graded_row(0, f"{i}, so the answer is 4", 1) for i in range(9)]
    bad = [graded_row(0, f"{i}, so the answer is 5", 0) for i in range(9)]
    paid = [graded_row(0, f"{i}: I cannot say", 1) for i in range(3)]
    found = page([*good * 2, *paid, *bad])
    first = found.findings[0]
    assert first.key == "paid-without-answer"
    assert [place.row for place in first.places] == [18, 19, 20]
    assert first.example["rollout"] == 18 and first.tone == "bad"
    # One or two of many are told, and not first.
    assert page([*good * 2, paid[0], *bad]).findings[0].key == "accuracy"


def test_a_reference_that_all_prompts_share_is_no_answer(page):
    """As in the game of 24: the dump's verdict is of something else."""
    rows = [graded_row(i // 4, f"{i}: the answer is 24", int(i % 4 < 3), "24") for i in range(80)]
    keys = {x.key for x in page(rows).findings}
    assert "asks-for-more" in keys and "correct-here" not in keys


def test_an_answer_that_was_overwritten(page):
    overwritten, stated = ROLLOUTS[3], ROLLOUTS[3] | {"response": ROLLOUTS[1]["response"]}
    rows = [*ROLLOUTS[:2], overwritten, stated, ROLLOUTS[2]]
    found = finding(page(rows, "paper", regrade=False), "overwritten")
    assert [place.row for place in found.places] == [2]
    inside = ROLLOUTS[3] | {"response": "the answer is 14 or 4.5 or x4 wait"}
    assert finding(page([*ROLLOUTS[:3], inside]), "overwritten") is None
    # Where the prompt asks for the answer, it tells nothing.
    asked = [ROLLOUTS[2] | {"response": f"try {i} the answer is 4"} for i in range(3)]
    assert finding(page([*ROLLOUTS, *asked], regrade=False), "overwritten") is None


def falling(until, accuracy, steps=(200, 400, 600, 800, 1000), seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "group": f"{step}-{g}",
            "prompt": f"prompt {g}?",
            "step": step,
            "response": f"it is {rng.integers(99)} {i}",
            "reward": int(step <= until or rng.random() < accuracy),
        }
        for step in steps
        for g in range(10)
        for i in range(4)
    ]


def test_a_run_that_gets_worse_says_so_with_the_step(page):
    found = page(falling(600, 0.4))
    fell = finding(found, "accuracy-fell")
    assert found.findings[0] is fell and fell.tone == "bad"
    assert "100 %" in fell.sentence and "step 800" in fell.sure
    assert fell.link == {"view": "training"}
    assert not told_changes(page(falling(0, 0.5)))


def told_changes(found):
    return [x.key for x in found.findings if x.key.endswith(("-fell", "-rose"))]


@pytest.mark.parametrize(("words", "keys"), [(101, []), (120, ["response-length-rose"])])
def test_a_change_that_hardly_matters_is_not_told(page, words, keys):
    """From the fourth of six steps on every response is longer: by a hundredth, by a fifth."""
    rows = [
        {"group": f"{step}-{g}", "step": step, "reward": i % 2}
        | {"response": " ".join([f"w{g}"] * (words if step > 3 else 100))}
        for step in range(1, 7)
        for g in range(6)
        for i in range(4)
    ]
    assert told_changes(page(rows)) == keys


@pytest.mark.parametrize("extra", ["entropy", '["entropy"]', '{"entropy": []}', '"entropy"'])
def test_further_fields_that_are_no_entropy(extra):
    row = {"group": "g", "response": "a", "reward": 1, "extra": extra}
    frame = frame_of(inputs.dump_of([row] * 2))
    assert not list(changes(frame, np.full(2, np.nan)))


def test_entropy_that_falls_is_told(page):
    rows = falling(0, 0.5)
    assert told_changes(page([x | {"entropy": "low"} for x in rows])) == []
    rows = [x | {"entropy": [2.0, 1.0 - 0.8 * (x["step"] > 500)]} for x in rows]
    assert told_changes(page(rows)) == ["entropy-fell"]


def test_of_several_inputs_no_change_over_steps_is_told(tmp_path):
    rows = falling(800, 0.4)
    files = [write_lines(tmp_path / f"{name}.jsonl", rows) for name in "ab"]
    assert not told_changes(page_data(inputs.load(files)))


def test_a_change_is_no_larger_than_chance_in_19_of_20_draws_of_noise():
    rng, steps = np.random.default_rng(0), np.repeat(np.arange(8), 6)
    p = [largest_change(rng.random(48), steps, np.arange(48)).p for _ in range(40)]
    assert np.mean(np.array(p) <= 0.05) <= 0.15


def test_prompts_that_come_again_are_compared_with_themselves():
    """Prompts of very different difficulty, all a little worse from the third step on."""
    rng = np.random.default_rng(0)
    prompts, steps = np.tile(np.arange(12), 4), np.repeat(np.arange(4), 12)
    values = np.tile(rng.random(12), 4) - 0.1 * (steps >= 2) + 0.01 * rng.random(48)
    paired = largest_change(values, steps, prompts)
    assert paired.steps == (0, 1, 2, 3) and paired.p < 0.001
    assert largest_change(values, steps, np.arange(48)).p > 0.05


def test_rows_with_a_reference_and_no_reward_are_graded(page):
    rows = [graded_row(0, f"{i}, so the answer is {4 + i % 2}", None) for i in range(6)]
    found = page(without(rows, "reward"))
    assert found.rollouts.correct == [1, 0, 1, 0, 1, 0]
    assert found.groups.n_correct == [3]
    (note,) = [x for x in found.notes if x["key"] == "graded_here"]
    assert (note["n"], note["severe"]) == (6, False)
    assert page(without(rows, "reward"), regrade=False).groups.known == [0]


def test_references_that_are_no_values_are_a_warning_and_so_are_outcomes_that_are_all_alike(page):
    rows = [graded_row(i // 4, f"{i}, so the answer is 4", i % 2, "# 18") for i in range(24)]
    assert finding(page(rows), "as-text").tone == "bad"
    assert "all-alike" in {x.key for x in page(without(rows, "reward")).findings[:2]}
    assert finding(page(without(rows[:4], "reward")), "all-alike") is None


def test_cut_off_is_what_the_dump_says_else_a_limit_of_length(page):
    cut = [{"finish_reason": "length"}, {"finished": False}, {"truncated": True}]
    fields = [*cut, {"finish_reason": "stop"}, {"is_truncated": False}, {}]
    rows = [{"group": 0, "response": f"so {i}", "reward": i % 2} | x for i, x in enumerate(fields)]
    assert [place.row for place in finding(page(rows), "unfinished").places] == [0, 1, 2]
    # Ten stop at 100 tokens, one of them is a token longer; the others end anywhere.
    ids = [[1] * n for n in [100] * 9 + [101] + list(range(20, 98, 3))]
    rows = [{"group": 0, "token_ids": x, "reward": i % 2} for i, x in enumerate(ids)]
    assert [place.row for place in finding(page(rows), "unfinished").places] == [*range(10)]


def test_lengths_that_are_all_alike_are_no_limit(page):
    rng = np.random.default_rng(0)

    def row(group, i, n):
        return {"group": group, "token_ids": rng.integers(0, 9, n).tolist(), "reward": i % 2}

    rows = [row(g, i, 40) for g in range(5) for i in range(8)]
    assert finding(page(rows), "unfinished") is None
    shorter = [row("shorter", i, 5 + i) for i in range(8)]
    assert finding(page([*rows, *shorter]), "unfinished").count == 40


def test_of_two_runs_the_difference_is_said_and_joining_is_not_advised(tmp_path):
    rng = np.random.default_rng(0)
    paths = [
        write_lines(
            tmp_path / f"{run}.jsonl",
            [
                {"prompt": f"{g}?", "response": f"{run} {g} {i}", "reward": int(x < share)}
                for g in range(40)
                for i, x in enumerate(rng.random(4))
            ],
        )
        for run, share in (("a", 0.2), ("b", 0.8))
    ]
    found = page_data(inputs.load(paths))
    (comparison,) = found.comparisons
    first = found.findings[0]
    assert first.tone == "good" and first.link == {"view": "compare"}
    assert first.sentence == comparison.sentence
    assert comparison.n_won + comparison.n_lost + comparison.n_same == 40
    assert comparison.n_won > comparison.n_lost
    assert {"apart", "models", "pooled"}.isdisjoint(note["key"] for note in found.notes)


def test_nothing_that_is_urgent_is_said_as_such(page):
    rng = np.random.default_rng(0)
    rows = [
        {"group": g, "response": f"w{rng.integers(99)} {g} {i}", "reward": i % 2}
        for g in range(5)
        for i in range(6)
    ]
    assert [x.tone for x in page(rows).findings] == ["plain"]
