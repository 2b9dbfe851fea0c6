"""What a shell is told when the user presses the tab key."""

import os
import shutil
import subprocess
import sys

import pytest


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_by_the_script_that_is_shown(tmp_path):
    """The script is loaded, and what it registers is called as the tab key calls it."""
    program = tmp_path / "ktae"
    code = "import sys; sys.argv[0] = 'ktae'; from ktae.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    script = """
source <(ktae --show-completion bash)
COMP_WORDS=(ktae data p)
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
registered=$(complete -p ktae | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$registered" ktae
printf '%s\\n' "${COMPREPLY[@]}"
"""
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.split(), done.stderr) == (["prepare"], "")
