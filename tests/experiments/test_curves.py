"""The logs of each trainer, as it writes them, become the same curves."""

import json

import pytest
from saved_outputs import write_lines

from ktae.errors import InputError
from ktae.experiments import curves

ENTROPIES = {1: 0.5, 2: 0.25}
EXPECTED = {
    "reward": {1: 0.5, 2: 1.0},
    "response length": {1: 30.0, 2: 20.0},
    "entropy": ENTROPIES,
}


def trl_steps():
    return [
        {
            "step": s,
            "reward": s / 2,
            "completions/mean_length": 40 - 10 * s,
            "entropy": ENTROPIES[s],
        }
        for s in (1, 2)
    ]


def verl_steps():
    return {
        step: {
            "critic/score/mean": step / 2,
            "response_length/mean": 40 - 10 * step,
            "actor/entropy": ENTROPIES[step],
            "timing_s/step": 300.5,
            "training/global_step": step,
        }
        for step in (1, 2)
    }


def test_a_run_folder(tmp_path):
    """The held-out scores are those of before its first step and of after its last."""
    write_lines(tmp_path / "metrics.jsonl", [row | {"seconds": 2.0} for row in trl_steps()])
    (tmp_path / "before.json").write_text('{"greedy_accuracy": 0.25}')
    assert curves.read(tmp_path)["held-out accuracy"] == {0: 0.25}
    (tmp_path / "summary.json").write_text('{"after": {"greedy_accuracy": 0.75}}')
    expected = EXPECTED | {"seconds": {1: 2, 2: 2}, "held-out accuracy": {0: 0.25, 2: 0.75}}
    assert curves.read(tmp_path) == expected
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        curves.arms([tmp_path, tmp_path / "metrics.jsonl"])


def test_trl_with_an_evaluation_of_its_own(tmp_path):
    """The newest state has the whole history; an evaluation is an entry beside the step's."""
    evaluation = {"step": 2, "eval_reward": 0.8, "eval_rewards/accuracy_reward/mean": 0.6}
    for step in (1, 2):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        history = [*trl_steps()[:step], *([evaluation] if step == 2 else [])]
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    expected = EXPECTED | {"held-out accuracy, accuracy_reward": {2: 0.6}}
    assert curves.read(tmp_path) == curves.read(folder / "trainer_state.json") == expected


VALIDATION = {
    "val-core/HuggingFaceH4/MATH-500/acc/mean@1": 0.7,
    "val-core/HuggingFaceH4/MATH-500/acc/best@4/mean": 0.9,
    "val-aux/HuggingFaceH4/MATH-500/reward/mean@1": 0.1,
}


def test_verls_file(tmp_path):
    steps = {0: VALIDATION, **verl_steps()}
    file = write_lines(
        tmp_path / "a.jsonl", [{"step": s, "data": data} for s, data in steps.items()]
    )
    assert curves.read(file) == EXPECTED | {
        "seconds": {1: 300.5, 2: 300.5},
        "held-out accuracy, HuggingFaceH4/MATH-500": {0: 0.7},
    }


@pytest.mark.parametrize("name", ["none", "empty", "other.jsonl"])
def test_what_holds_no_metrics_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.jsonl").write_text('{"response": "x"}\n')
    with pytest.raises(InputError, match=name):
        curves.read(tmp_path / name)


def test_seeds_are_one_arm_and_one_line(tmp_path):
    """The band reaches from the lowest to the highest seed, over the steps that all have."""
    for name, rewards in (("a-seed0", [1, 3, 9]), ("a-seed1", [3, 5]), ("b-seed0", [2, 2])):
        folder = tmp_path / name
        folder.mkdir()
        rows = [{"step": s, "reward": x} for s, x in enumerate(rewards, 1)]
        write_lines(folder / "metrics.jsonl", rows)
    arms = curves.arms([*sorted(tmp_path.iterdir())])
    assert [(arm.name, len(arm.seeds), arm.last("reward")) for arm in arms] == [
        ("a", 2, 7.0),
        ("b", 1, 2.0),
    ]
    pytest.importorskip("matplotlib")
    (axes,) = curves.draw(arms).axes
    drawn = [line.get_xydata().tolist() for line in axes.get_lines()]
    assert drawn == [[[1, 2], [2, 4]], [[1, 2], [2, 2]]]
    ys = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (ys.min(), ys.max()) == (1, 5)
    (smooth,) = curves.draw(arms, smooth=2).axes
    assert smooth.get_lines()[0].get_ydata().tolist() == [2, 3]
