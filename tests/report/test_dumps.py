"""What TRL and verl write, folders of it, and rows with gaps."""

import pytest
from dumps import ROLLOUTS
from saved_outputs import write_lines

from ktae import InputError
from ktae.experiments import outputs
from ktae.report import inputs
from ktae.rollouts import readers
from ktae.rollouts.options import ReadOptions

VERL = {"input": "2 + 2?", "output": "4", "gts": "4", "score": 1.0, "step": 1, "acc": True}


def read(path, **options):
    return readers.read([path], ReadOptions(**options)).to_pylist()


def test_verl_keys_name_the_sample_and_the_last_output_of_a_session_is_the_rollout(tmp_path):
    """As verl 0.9.1 dumps them, sorted by prompt, session and output. The same prompt twice in a
    step is two groups, as in training; padding is no rollout, and a real one may well be empty."""
    keys = ["a_0_0", "a_0_1", "a_0_2", "a_1_0", "a_1_1", "b_0_0", "b_1_1", "odd"]
    rows = [VERL | {"uid": key, "output": key} for key in keys]
    rows += [VERL | {"input": "", "output": "", "uid": f"pad{'0a' * 16}_3_0"}] * 2
    rows += [VERL | {"uid": "c_0_0", "output": ""}, VERL | {"uid": "b_1_2", "step": 2}]
    path = write_lines(tmp_path / "1.jsonl", rows)
    kept = read(path)
    assert [row["response"] for row in kept] == ["a_0_2", "a_1_1", "b_0_0", "b_1_1", "odd", "", "4"]
    groups = [row["group"] for row in kept]
    assert groups[:4] == ["a", "a", "b", "b"] and groups[4].startswith("prompt ")
    counts = inputs.load([path]).notes.counts
    assert (counts["padding"], counts["intermediate"]) == (2, 3)
    assert (kept[0]["prompt"], kept[0]["answer"]) == ("2 + 2?", "4")


def test_verl_s_acc_is_the_verdict_above_0_whatever_the_score(tmp_path):
    """As in training, in the report, and in what a grader is compared with. Undecided is not
    incorrect: without a verdict, and with the score that it has."""
    accs = [0.5, 0.0, -1.0, 1, True, False, "True", "False"]
    rows = [VERL | {"acc": acc, "score": 0.3 - i} for i, acc in enumerate(accs)]
    path = write_lines(tmp_path / "1.jsonl", rows)
    expected = [1, 0, 0, 1, 1, 0, 1, 0]
    assert [row["correct"] for row in read(path)] == expected
    assert outputs.read(path)["reward"].to_pylist() == expected
    for unknown in ({"undecided": 1.0, "acc": 0.0}, {"acc": None}):
        rows = [VERL | {"undecided": 0.0}, VERL | {"score": 0.0} | unknown]
        rows = read(write_lines(tmp_path / "1.jsonl", rows))
        assert [(row["correct"], row["reward"]) for row in rows] == [(1.0, 1.0), (None, 0.0)]


def test_a_run_s_tokenizer_that_cannot_spell_another_input_is_named(tmp_path, run_folder):
    other = write_lines(tmp_path / "r.jsonl", ROLLOUTS)
    with pytest.raises(InputError) as caught:
        inputs.load([run_folder, other])
    assert str(caught.value).startswith(
        f"{run_folder / 'tokenizer'}, the run's own tokenizer and so"
    )
