"""`ktae train --engine verl` up to the point where verl starts."""

import json
import shlex
import subprocess

import pyarrow.parquet as pq
import pytest
import yaml
from extras import hide, installed
from in_process import ktae
from saved_outputs import write_lines

from ktae.errors import InputError
from ktae.experiments import recipe as recipes
from ktae.experiments.run_folder import RunFolder
from ktae.experiments.verl import run
from ktae.grading import workers

pytestmark = pytest.mark.skipif(not installed("verl"), reason="needs the extra 'verl'")


@pytest.fixture
def recipe_file(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    content = {
        "name": "x",
        "steps": 2,
        "model": {"path": str(model)},
        "credit": "paper",
        "logging": {"eval_problems": 4},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.fixture
def pretrained(monkeypatch, tmp_path):
    """An empty cache of base models, and the folders that were pretrained into it."""
    from ktae.experiments.demo import pretrain

    folders = []

    def write():
        folder = pretrain.base_model_folder()
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(folder)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(pretrain, "base_model", write)
    return folders


def test_dry_run_prints_the_command_that_would_be_run(
    recipe_file, tmp_path, capsys, pretrained, started
):
    out = tmp_path / "run"
    words = "credit={estimator: paper, transforms: [{over-units: [word]}]}"
    arguments = ["train", recipe_file, "--engine", "verl", "--output", out, "model.path=demo"]
    assert ktae(*arguments, words, "--dry-run") == 0
    printed = capsys.readouterr().out
    assert not pretrained and not (tmp_path / "cache").exists() and not out.exists()
    ktae(*arguments, words)
    [base] = pretrained
    assert f"# {base} does not exist yet; `ktae train` pretrains it\n" in printed
    assert "test.parquet does not exist yet; `ktae train` writes it" in printed
    command = shlex.split(printed.replace("\\\n", " "), comments=True)
    [(program, _)] = started
    start = command.index("python")
    assert command[start + 1 :] == program[1:]
    assert f"TENSORBOARD_DIR={out / 'tensorboard'}" in command[:start]
    assert program[1:4] == ["-P", "-m", "verl.trainer.main_ppo"]
    expected = {"trainer.v1.trainer_mode": "ktae_sync", "actor_rollout_ref.model.path": base}
    expected |= {"hydra.run.dir": out / "hydra", "+algorithm.credit.tokenizer": base}
    expected |= {"data.train_files": out / "data/verl/train.parquet"}
    assert {f"{key}={value}" for key, value in expected.items()} <= {*program}


@pytest.fixture
def started(monkeypatch):
    """The processes that a run would have started."""
    monkeypatch.delenv("VERL_USE_EXTERNAL_MODULES", raising=False)
    calls = []

    def record(program, env, cwd, check, pass_fds):
        assert pass_fds, "the lock of the run folder"
        calls.append((program, env))
        return subprocess.CompletedProcess(program, 7)

    monkeypatch.setattr(subprocess, "run", record)
    return calls


def test_a_run_writes_the_demo_s_problems_and_starts_verl(
    recipe_file, tmp_path, started, monkeypatch
):
    """Other modules are loaded, too, on every node."""
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "mine,ktae.trainers.verl")
    recipe, folder = recipes.load(recipe_file), RunFolder(tmp_path / "run")
    assert run.run(recipe, folder, resume=False) == 7
    [(program, environment)] = started
    assert environment["VERL_USE_EXTERNAL_MODULES"] == "ktae.trainers.verl,mine"
    variables = "+ray_kwargs.ray_init.runtime_env.env_vars"
    assert f'{variables}.VERL_USE_EXTERNAL_MODULES="ktae.trainers.verl,mine"' in program
    assert f"{variables}.VERL_FILE_LOGGER_PATH={folder.metrics}" in program
    rows = pq.read_table(folder.path / "data" / "verl" / "train.parquet").to_pylist()
    assert len(rows) == 2 * 8 and {row["data_source"] for row in rows} == {"ktae/demo"}
    run.run(recipe, folder, resume=False)  # nothing was trained yet
    folder.metrics.touch()
    with pytest.raises(InputError):
        run.run(recipe, folder, resume=False)


def test_resume_continues_the_same_recipe_only(recipe_file, tmp_path, started):
    recipe, folder = recipes.load(recipe_file), RunFolder(tmp_path / "run")
    with pytest.raises(InputError):
        run.run(recipe, folder, resume=True)
    run.run(recipe, folder, resume=False)
    folder.metrics.write_text(json.dumps({"step": 1}) + "\n")
    run.run(recipe, folder, resume=True)
    assert "trainer.resume_mode=auto" in started[-1][0]
    assert (folder.path / "metrics-1.jsonl").exists() and not folder.metrics.exists()
    with pytest.raises(InputError, match="seed"):
        run.run(recipes.load(recipe_file, ["seed=5"]), folder, resume=True)
    (folder.checkpoints / "checkpoint-2").mkdir(parents=True)
    (folder.checkpoints / "checkpoint-2" / "trainer_state.json").write_text("{}")
    with pytest.raises(InputError, match="checkpoint-2"):  # TRL's
        run.run(recipe, folder, resume=True)
    assert len(started) == 2


def test_without_the_grader_or_the_problems_nothing_starts(
    recipe_file, tmp_path, monkeypatch, started
):
    file = write_lines(tmp_path / "p.jsonl", [{"problem": "1 + 1?", "answer": "2"}])
    task = f"task={{source: file, train: {file}, test: {tmp_path / 'absent.jsonl'}}}"
    recipe, folder = recipes.load(recipe_file, [task]), RunFolder(tmp_path / "run")
    with pytest.raises(InputError, match="absent"):
        run.run(recipe, folder, resume=False)
    hide(monkeypatch, "latex2sympy2_extended")
    monkeypatch.setattr(workers, "_default", [])
    with pytest.raises(InputError, match="latex2sympy2_extended"):
        run.run(recipe, folder, resume=False)
    assert not started and not (tmp_path / "run").exists()
