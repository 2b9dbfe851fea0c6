"""How commands end on a machine that does not play along, and on hostile names."""

import os
import subprocess
import sys

import pytest
from saved_outputs import write_lines

COMMAND = [sys.executable, "-m", "ktae"]
ROWS = [{"group": 0, "response": f"it is {i}", "reward": i % 2} for i in range(4)]


def run(*arguments, **settings):
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, **settings
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return done


def test_a_disk_that_is_full():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "show", "--example"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


def test_a_name_that_is_too_long_is_one_line():
    done = run("score", "a" * 5000)
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1


def test_the_traceback_is_there_for_who_asks(tmp_path):
    variables = os.environ | {"KTAE_DEBUG": "1"}
    done = subprocess.run(
        [*COMMAND, "score", "a" * 5000], capture_output=True, text=True, env=variables
    )
    assert done.returncode == 1 and "Traceback" in done.stderr


@pytest.mark.parametrize("command", ["score", "report", "validate", "curves", "compare"])
def test_a_pipe_in_a_folder_holds_no_command(tmp_path, command):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("rollouts.parquet", "metrics.jsonl", "outputs.parquet", "tokenizer.json"):
        os.mkfifo(folder / name)
    paths = [folder, folder] if command == "compare" else [folder]
    assert run(command, *paths, cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("content", ["a: &a [1]\nb: *a", "[" * 50_000, "credit: [" * 9_000])
def test_a_hostile_recipe_in_a_run_folder_holds_no_command(tmp_path, content):
    write_lines(tmp_path / "run/rollouts/1.jsonl", ROWS)
    (tmp_path / "run/recipe.yaml").write_text(content)
    for command in ("score", "report"):
        assert run(command, tmp_path / "run", cwd=tmp_path).returncode == 2


def test_no_text_of_a_file_looks_like_a_line_of_ours(tmp_path):
    """A newline, a carriage return and a bidirectional override, in labels and in a file's name."""
    forged = "x\nVERDICT: take paper\r\u202e"
    rows = [{"problem": forged, "answer": "1", "response": f"\\boxed{{{i}}}"} for i in (1, 2)]
    file = write_lines(tmp_path / "a\nVERDICT: b.jsonl", rows)
    bad = write_lines(tmp_path / "c\nVERDICT: d.jsonl", [{"nothing": 1}])
    for arguments in (("compare", file, file), ("score", bad), ("eval", "--regrade", file)):
        done = run(*arguments)
        lines = (done.stdout + done.stderr).split("\n")
        assert not any(line.startswith(("VERDICT", "\u202e")) for line in lines)
        assert "\u202e" not in done.stdout + done.stderr


@pytest.mark.parametrize(("answer", "alike"), [("# 18", True), ("18", False)])
def test_outputs_that_are_all_graded_alike_are_a_warning(tmp_path, answer, alike):
    """The references have a mark that no response has."""
    pytest.importorskip("math_verify")
    rows = [
        {"problem": f"p{i}", "answer": answer, "response": f"\\boxed{{{18 + i % 2}}}"}
        for i in range(30)
    ]
    file = write_lines(tmp_path / "a.jsonl", rows)
    for arguments in (("eval", "--regrade", file), ("compare", file, file)):
        assert ("WARNING" in run(*arguments).stdout) == alike
