"""What a shell is told when the user presses the tab key."""

import os
import shutil
import subprocess
import sys

import pytest

SHELLS = {
    "zsh": lambda line: {"_TYPER_COMPLETE_ARGS": line},
    "fish": lambda line: {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def ktae(*arguments, **environment):
    named = "import sys; sys.argv[0] = 'ktae'; from ktae.cli import main; main()"
    command = [sys.executable, "-c", named, *arguments]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "line", "expected", "others"),
    [
        ("zsh", "ktae score --tok", ["--tokenizer"], ["--top"]),
        ("fish", "ktae score --backend n", ["naive"], ["auto"]),
    ],
)
def test_completion(shell, line, expected, others):
    told = ktae(**{"_KTAE_COMPLETE": f"complete_{shell}"} | SHELLS[shell](line))
    assert all(word in told for word in expected), told
    assert not any(word in told for word in others), told


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_a_shell(shell):
    script = ktae("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert f"complete_{shell}" in script


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """`ktae` and `ktae-lab` on the path of the shell, as they are when installed."""
    for name, module in (("ktae", "ktae"), ("ktae-lab", "ktae_lab")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        code = f"import sys; sys.argv[0] = '{name}'; from {module}.cli import main; main()"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ktae demo p", ["pretrain"]),
        ("ktae show --estimator sh", ["sharp-trigrams"]),
        ("ktae score r", []),  # files are the shell's
        ("ktae-lab al", ["align"]),
    ],
)
def test_bash_completes_by_the_script_that_is_shown(programs, line, expected):
    """The script is loaded, and what it registers is called as the tab key calls it."""
    program = line.split(" ")[0]
    script = f"""
source <({program} --show-completion bash)
COMP_WORDS=({line})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
registered=$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$registered" {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split(), done.stderr) == (expected, "")
