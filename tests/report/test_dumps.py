"""What TRL and verl write, folders of it, and rows with gaps."""

import json

import numpy as np
import pytest
from dumps import ROLLOUTS, write_lines
from extras import require

from ktae import InputError
from ktae.evaluation import outputs
from ktae.report import ReadOptions, inputs
from ktae.rollouts import readers

VERL = {"input": "2 + 2?", "output": "4", "gts": "4", "score": 1.0, "step": 1, "acc": True}
TRL = {"step": 1, "prompt": "2 + 2?", "completion": "4", "accuracy": 1.0, "advantage": 0.5}


def read(path, **options):
    return readers.read([path], ReadOptions(**options)).to_pylist()


def test_verl(tmp_path):
    late = VERL | {"output": "late 4", "score": 0.0, "acc": True}  # right, but over-long
    other = VERL | {"input": "3 + 3?", "output": "5", "score": 0.0, "acc": False, "pred": "5"}
    rows = read(write_lines(tmp_path / "1.jsonl", [VERL, late, other]))
    assert [row["correct"] for row in rows] == [1.0, 1.0, 0.0]
    assert [row["reward"] for row in rows] == [1.0, 0.0, 0.0]
    assert rows[0]["group"] == rows[1]["group"] != rows[2]["group"]
    assert rows[0]["prompt"] == "2 + 2?"
    assert rows[0]["answer"] == "4"
    assert json.loads(rows[2]["extra"])["pred"] == "5"


def test_verl_keys_name_the_sample(tmp_path):
    """The same prompt twice in a step is two groups, as in training."""
    rows = [VERL | {"uid": uid} for uid in ("7f_a_0_0", "7f_a_1_0", "90_b_0_0", "odd")]
    groups = [row["group"] for row in read(write_lines(tmp_path / "1.jsonl", rows))]
    assert groups[:3] == ["7f_a", "7f_a", "90_b"]
    assert groups[3].startswith("prompt ")


def test_verl_padding_rows_are_no_rollouts(tmp_path):
    """As verl 0.9.1 dumps them; a real rollout may well be empty."""
    padding = VERL | {"input": "", "output": "", "score": 0.0, "uid": f"pad{'0a' * 16}_3_0"}
    empty = VERL | {"output": "", "uid": f"{'0a' * 16}_0_0"}
    path = write_lines(tmp_path / "1.jsonl", [VERL, padding, padding, empty])
    assert [row["response"] for row in read(path)] == ["4", ""]
    dump = inputs.load([path])
    assert (len(dump.rollouts), dump.notes.counts["padding"]) == (2, 2)
    assert len(outputs.read(path)) == 2


def test_of_a_session_of_verl_s_the_last_output_is_the_rollout(tmp_path):
    """In the order in which verl 0.9.1 sorts them: prompt, session, output."""
    keys = ["a_0_0", "a_0_1", "a_0_2", "a_1_0", "a_1_1", "a_2_0", "b_0_0", "b_1_1"]
    rows = [VERL | {"uid": key, "output": key} for key in keys]
    rows.append(VERL | {"uid": "b_1_2", "output": "next step", "step": VERL["step"] + 1})
    path = write_lines(tmp_path / "1.jsonl", rows)
    kept = ["a_0_2", "a_1_1", "a_2_0", "b_0_0", "b_1_1", "next step"]
    assert [row["response"] for row in read(path)] == kept
    assert inputs.load([path]).notes.counts["intermediate"] == 3


@pytest.mark.nightly
def test_what_the_real_verl_writes(tmp_path):
    require("verl")
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    texts = ["so 4", "hmm 5 é", "4"]
    scores, verdicts = [1.0, -1.0, 0.0], [True, False, True]
    arguments = (["2 + 2?"] * 3, texts, ["4"] * 3, scores, {"acc": verdicts}, str(tmp_path), 7)
    RayPPOTrainer._write_generations(*arguments)
    rows = read(tmp_path)
    assert [row["response"] for row in rows] == texts
    assert [row["reward"] for row in rows] == scores
    assert [row["correct"] for row in rows] == [1.0, 0.0, 1.0]
    assert {(row["step"], row["answer"], row["prompt"]) for row in rows} == {(7, "4", "2 + 2?")}
    assert len({row["group"] for row in rows}) == 1


def test_verl_folder_is_read_by_step(tmp_path):
    for step in (1, 2, 10):
        write_lines(tmp_path / f"{step}.jsonl", [VERL | {"step": step}])
    rows = read(tmp_path)
    assert [row["step"] for row in rows] == [1, 2, 10]
    assert len({row["group"] for row in rows}) == 1


def test_verl_s_acc_is_the_verdict_above_0_whatever_the_score(tmp_path):
    """As in training, in the report, and in what a grader is compared with."""
    accs = [0.5, 0.0, -1.0, 1, True, False, "True", "False"]
    rows = [VERL | {"acc": acc, "score": 0.3 - i} for i, acc in enumerate(accs)]
    path = write_lines(tmp_path / "1.jsonl", rows)
    expected = [1, 0, 0, 1, 1, 0, 1, 0]
    assert [row["correct"] for row in read(path)] == expected
    assert [output.reward for output in outputs.read(path)] == expected


@pytest.mark.parametrize("unknown", [{"undecided": 1.0, "acc": 0.0}, {"acc": None}])
def test_verl_undecided_is_not_incorrect(tmp_path, unknown):
    """As `ktae.trainers.verl` trains: without a verdict, and with the score that it has."""
    rows = [VERL | {"undecided": 0.0}, VERL | {"score": 0.0} | unknown]
    rows = read(write_lines(tmp_path / "1.jsonl", rows))
    assert [(row["correct"], row["reward"]) for row in rows] == [(1.0, 1.0), (None, 0.0)]


def test_trl(tmp_path):
    chat = [{"role": "assistant", "content": "the answer is 4"}]
    rows = [TRL, TRL | {"completion": chat, "accuracy": None}, TRL | {"accuracy": 0.0}]
    rows = read(write_lines(tmp_path / "c.jsonl", rows))
    assert [row["correct"] for row in rows] == [1.0, None, 0.0]
    assert [row["reward"] for row in rows] == [1.0, None, 0.0]
    assert rows[1]["response"] == "the answer is 4"
    assert rows[0]["advantage"] == 0.5


def test_trl_with_several_rewards_needs_to_be_told(tmp_path):
    row = {**TRL, "length": 0.5, "format": 1.0}
    path = write_lines(tmp_path / "c.jsonl", [row, row])
    assert read(path)[0]["reward"] == 1.0  # accuracy says so by its name
    assert read(path, correctness="format")[0]["reward"] == 1.0
    assert read(path, correctness="length")[0]["reward"] == 0.5
    with pytest.raises(InputError, match=r"correctness is 'nope'; expected .*'accuracy', 'length'"):
        read(path, correctness="nope")
    del row["accuracy"]
    with pytest.raises(InputError, match=r"line 1: correctness is None; .*'length', 'format'"):
        read(write_lines(path, [row]))


@pytest.mark.parametrize("logged", [0.5, "yes", 7, True, None])
def test_trl_logs_what_it_likes_as_correct(tmp_path, logged):
    rows = [TRL | {"correct": logged}, TRL | {"correct": logged, "accuracy": 0.0}]
    rows = read(write_lines(tmp_path / "c.jsonl", rows), correctness="accuracy")
    assert [(row["correct"], row["reward"]) for row in rows] == [(1.0, 1.0), (0.0, 0.0)]


def test_trl_reward_of_the_name_correct(tmp_path):
    row = {name: value for name, value in TRL.items() if name != "accuracy"}
    rows = [row | {"correct": 0.75}, row | {"correct": 0.25}, row | {"correct": None}]
    rows = read(write_lines(tmp_path / "c.jsonl", rows), threshold=0.5)
    assert [(row["correct"], row["reward"]) for row in rows] == [
        (1.0, 0.75),
        (0.0, 0.25),
        (None, None),
    ]


@pytest.mark.nightly
def test_what_the_real_trl_writes(tmp_path):
    """A step of the real trainer, and the same rollouts through the trainer's own callback."""
    require("trl")
    from datasets import Dataset
    from trl import GRPOConfig

    from ktae.demo import SUMS
    from ktae.demo.model import make_model, make_tokenizer
    from ktae.trainers.trl import KTAETrainer

    def even_start(completion_ids, **_):
        return [float(ids[0] % 2 == 0) for ids in completion_ids]

    kept = []
    problems = SUMS.train_problems(8, seed=0)
    tokenizer = make_tokenizer(SUMS)
    trainer = KTAETrainer(
        model=make_model(SUMS, seed=0),
        processing_class=tokenizer,
        reward_funcs=even_start,
        train_dataset=Dataset.from_dict({"prompt": [p.prompt for p in problems]}),
        on_rollouts=kept.append,
        args=GRPOConfig(
            output_dir=str(tmp_path / "out"),
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=12,
            max_steps=1,
            logging_steps=1,
            log_completions=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
    )
    trainer.train()
    rows = read(tmp_path / "out")
    (batch,) = kept
    assert len(rows) == 8
    assert [row["correct"] for row in rows] == batch.correct.tolist()
    np.testing.assert_allclose(
        [row["advantage"] for row in rows], batch.advantages.tolist(), rtol=1e-6
    )
    assert [row["prompt"] for row in rows] == [row["prompt"] for row in batch.inputs]
    labels = [row["group"] for row in rows]
    assert len(set(labels[:4])) == 1 and len(set(labels)) == 2


def test_folders(tmp_path):
    with pytest.raises(InputError, match="holds no rollouts"):
        read(tmp_path)
    (tmp_path / "completions").mkdir()
    write_lines(tmp_path / "completions/c_2.jsonl", [TRL | {"step": 2}])
    write_lines(tmp_path / "completions/c_10.jsonl", [TRL | {"step": 10, "advantage": 0.25}])
    assert [row["step"] for row in read(tmp_path)] == [2, 10]
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "nope")


def test_a_run_s_tokenizer_that_cannot_spell_another_input_is_named(tmp_path, run_folder):
    other = write_lines(tmp_path / "r.jsonl", ROLLOUTS)
    with pytest.raises(InputError, match="cannot spell the response 'two and two") as caught:
        inputs.load([run_folder, other])
    assert str(caught.value).startswith(f"{run_folder / 'model'}, the run's own tokenizer and so")
    with pytest.raises(InputError, match=f"^tokenizer {run_folder / 'model'} cannot spell"):
        inputs.load([other], ReadOptions(str(run_folder / "model")))


def test_gaps_are_counted(tmp_path):
    rows = [
        {"prompt": "p", "response": "x"},
        {"prompt": "p", "response": "y", "correct": True},
        {"response": "alone", "reward": 1},
        {"group": 1, "response": "half \ud800", "reward": 1},
        {"group": 1, "reward": 1},
        {"group": 1, "token_ids": [1], "mask": [1, 0], "reward": 1},
        7,
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    notes = dump.notes
    assert (
        notes.counts["without_reward"],
        notes.counts["without_group"],
        notes.counts["alone"],
    ) == (1, 2, 1)
    assert notes.counts["rejected"] == 3
    assert "line 6: mask and token_ids differ in length" in notes.names["rejected"][1]
    kept = dump.rollouts.to_pylist()
    assert [row["correct"] for row in kept] == [None, 1.0, 1.0, 1.0]
    assert [row["reward"] for row in kept] == [None, 1.0, 1.0, 1.0]
    assert kept[0]["group"] == kept[1]["group"]
    assert kept[3]["response"] == "half \ufffd"
