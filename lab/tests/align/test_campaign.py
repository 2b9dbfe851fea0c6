"""What is run to measure all alignments again."""

import json
import threading

import pytest

from ktae.estimators import to_section
from ktae_lab.align import campaign
from ktae_lab.cli.align import labelled
from ktae_lab.study import matrix
from ktae_lab.tables import alignment


class Failed(Exception):
    """A command did."""


@pytest.fixture
def calls(tmp_path):
    """A run of commands that only leave what the real ones leave; fails where `fail` is in one."""

    class Calls(list):
        fail = None
        lock = threading.Lock()

        def __call__(self, command):
            with self.lock:
                self.append(command[3:])
            if self.fail and self.fail in command:
                raise Failed(command)
            out = tmp_path / command[command.index("--output") + 1]
            out.mkdir(exist_ok=True)
            if command[3] == "train":
                (out / "recipe.yaml").touch()
                (out / "summary.json").touch()
            else:
                (out / "align.json").write_text(json.dumps({}))

    return Calls()


def test_each_run_is_trained_once_and_measured_along_it(tmp_path, calls):
    chains = campaign.along_runs(tmp_path)
    campaign.measure(tmp_path, chains, jobs=2, run=calls)
    assert [command[0] for command in calls].count("train") == 6
    names = {one.name for chain in chains for one in chain}
    assert names == {
        f"{task}-base{base}-step{step}"
        for task in alignment.TASKS
        for base in range(len(alignment.BASES))
        for step in alignment.STEPS
    }
    assert {path.parent.name for path in tmp_path.glob("*/align.json")} == names
    n = len(calls)
    campaign.measure(tmp_path, chains, jobs=2, run=calls)
    assert len(calls) == n, "nothing is done again"


def test_a_checkpoint_is_that_of_its_step(tmp_path):
    (first, *_, last), *_ = campaign.along_runs(tmp_path)
    assert "model.path=demo" in first.arguments
    assert f"model.path={tmp_path}/lists-base0/checkpoints/checkpoint-320" in last.arguments
    assert "demo.language=lists" in last.arguments and "seed=1040" in last.arguments
    given = zip(last.arguments, last.arguments[1:], strict=False)
    estimators = labelled([spec for option, spec in given if option == "--estimator"])
    assert {trained.aligned for trained in alignment.TRAINED.values()} <= set(estimators)


def test_a_failure_is_passed_on_and_an_interrupted_run_is_resumed(tmp_path, calls):
    (chain, *_) = campaign.along_runs(tmp_path)
    calls.fail = "steps=40"
    with pytest.raises(Failed):
        campaign.measure(tmp_path, [chain], jobs=1, run=calls)
    (tmp_path / "lists-base0").mkdir()
    (tmp_path / "lists-base0/recipe.yaml").touch()
    calls.fail = None
    campaign.measure(tmp_path, [chain], jobs=1, run=calls)
    trained = [command for command in calls if command[0] == "train"]
    assert [command[-1] == "--resume" for command in trained] == [False, True]


def test_base_models_are_those_of_the_page():
    assert [one.name for one in campaign.at_base_models()] == [
        "sums-base0", "sums-base0-no-std", "sums-base1",
    ]  # fmt: skip


def test_the_real_model_is_measured_along_one_run(tmp_path, calls):
    chain = campaign.along_a_real_run(tmp_path)
    first, *_, last = chain
    campaign.measure(tmp_path, [[first]], jobs=1, run=calls)
    assert [command[0] for command in calls] == ["align"], "the base model needs no run"
    # Two at a time: all but one wait until it is trained.
    campaign.measure(tmp_path, [[one] for one in chain], jobs=2, run=calls)
    along = ["align"] * (len(campaign.REAL_STEPS) - 1)
    assert [command[0] for command in calls[1:]] == ["train", *along]
    assert not [one for one in first.arguments if one.startswith("model.path=")]
    assert f"model.path={tmp_path}/smollm2/checkpoints/checkpoint-40" in last.arguments
    given = zip(last.arguments, last.arguments[1:], strict=False)
    arms = matrix.load(campaign.ARMS).methods
    found = labelled([spec for option, spec in given if option == "--estimator"])
    assert list(found) == [name for name in arms if name != "grpo"]
    assert to_section(found["offset"])["transforms"][-1] == "group-mean"


def test_the_real_model_s_run_is_not_one_of_the_study():
    assert campaign.REAL_SEED not in matrix.load(campaign.ARMS).seeds
