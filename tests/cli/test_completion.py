"""What a shell is told when the user presses the tab key."""

import os
import subprocess
import sys

import pytest

SHELLS = {
    "bash": lambda line: {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
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
        ("bash", "ktae sc", ["score"], ["show"]),
        ("bash", "ktae demo p", ["pretrain"], ["sample"]),
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
