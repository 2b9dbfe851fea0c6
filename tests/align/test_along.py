"""study/align/along.sh and base.sh with a `ktae` that only writes down how it was called."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "study/align"
RUNS = [f"{language}-base{n}" for language in ("lists", "sums") for n in range(3)]
STEPS = (0, 5, 10, 20, 40)
CALLS = len(RUNS) * (1 + len(STEPS))
KTAE = """#!/usr/bin/env bash
set -eu
echo "$*" >> calls
command=$1 language=${3#demo.language=}
while [ "$1" != --output ]; do shift; done
mkdir -p "$2"
[ "$command" = align ] || touch "$2/recipe.yaml"
case "$command-$language" in
  "${FAILS:-none}") exit 3 ;;
  "${SLOW:-none}") echo $$ > pid; sleep 60 ;;
esac
if [ "$command" = train ]; then touch "$2/summary.json"; else echo "{}" > "$2/align.json"; fi
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "study/align").mkdir(parents=True)
    for name in ("along.sh", "base.sh"):
        shutil.copy(SCRIPTS / name, tmp_path / "study/align")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ktae").write_text(KTAE, encoding="utf-8")
    (tmp_path / "bin/ktae").chmod(0o755)
    return tmp_path


def along(project: Path, *arguments: str, **environment: str) -> int:
    return run(project, "along.sh", *arguments, **environment)


def run(project: Path, script: str, *arguments: str, **environment: str) -> int:
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    command = [str(project / "study/align" / script), *arguments]
    done = subprocess.run(command, env=os.environ | {"PATH": path} | environment, timeout=60)
    return done.returncode


def calls(project: Path) -> list[str]:
    return (project / "calls").read_text(encoding="utf-8").splitlines()


def committed(project: Path) -> list[str]:
    return sorted(path.name for path in (project / "study/align/along").glob("*"))


def test_both_languages_and_three_base_models_along_their_runs(project: Path) -> None:
    assert along(project) == 0
    assert committed(project) == sorted(f"{run}-step{n}.json" for run in RUNS for n in STEPS)
    aligned = [call for call in calls(project) if call.startswith("align")]
    assert len(aligned) == len(RUNS) * len(STEPS)
    assert sum("model.path=demo " in call for call in aligned) == len(RUNS)
    for run in RUNS:
        last = f"model.path=runs/along-{run}/checkpoints/checkpoint-320 "
        (call,) = (call for call in aligned if last in call)
        language, base = run.split("-base")
        assert f"demo.language={language} model.demo_seed={base} " in call
        assert f"--output runs/along-{run}-step40" in call
    assert along(project) == 0 and len(calls(project)) == CALLS, "nothing is done again"


def test_a_trial_has_its_arguments_and_is_not_committed(project: Path) -> None:
    assert along(project) == 0
    assert along(project, "--batches", "10") == 0
    n, trial = len(RUNS) * len(STEPS), calls(project)[CALLS:]
    assert len(trial) == n and all(call.endswith("--batches 10") for call in trial)
    out = project / "runs/along-sums-base0-step0-trial--batches-10/align.json"
    out.write_text('"the trial"', encoding="utf-8")
    assert along(project, "--batches", "10") == 0 and len(calls(project)) == CALLS + n
    assert along(project, "--batches", "5") == 0 and len(calls(project)) == CALLS + 2 * n
    texts = [path.read_text() for path in (project / "study/align/along").glob("*")]
    assert [json.loads(text) for text in texts] == [{}] * n


@pytest.mark.parametrize(("fails", "slow"), [("sums", "lists"), ("lists", "sums")])
def test_a_failure_ends_the_other_language_too(project: Path, fails: str, slow: str) -> None:
    began = time.monotonic()
    assert along(project, FAILS=f"align-{fails}", SLOW=f"train-{slow}") == 3
    assert time.monotonic() - began < 50, "it waited for the other language"
    if (project / "pid").exists():  # it had begun
        pid = int((project / "pid").read_text())
        for _ in range(100):
            if not alive(pid):
                break
            time.sleep(0.1)
        assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_interrupted_run_is_continued(project: Path) -> None:
    assert along(project, FAILS="train-sums") == 3
    assert along(project) == 0
    sums = "language=sums model.demo_seed=0"
    trained = [call for call in calls(project) if call.startswith("train") and sums in call]
    assert [call.endswith("--resume") for call in trained] == [False, True]


def test_base_models_before_training(project: Path) -> None:
    assert run(project, "base.sh", "--batches", "2") == 0
    assert not list((project / "study/align").glob("*.json")), "a trial's results stay in runs/"
    assert all(call.endswith("--batches 2") for call in calls(project))
    assert run(project, "base.sh") == 0
    names = {path.stem for path in (project / "study/align").glob("*.json")}
    assert names == {path.stem for path in SCRIPTS.glob("sums-base*.json")}
    assert len(calls(project)) == 6
    assert run(project, "base.sh") == 0
    assert len(calls(project)) == 6, "measured again"
