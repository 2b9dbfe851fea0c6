"""How the command line ends when the disk is full, and when it is asked to."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ktae", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "ktae: cannot write what is printed: No space left on device\n"


def test_sigterm_ends_it_as_an_exception_does():
    code = """
import time
from ktae import cli

def app(**_):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("tidied up", flush=True)

cli.app = app
cli.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.communicate(timeout=30) == ("tidied up\n", "")
    assert process.returncode == 143


def test_a_reader_that_goes_away_is_no_error():
    """As in `ktae bench ... | head -1`: no traceback, and the status that a shell would give."""
    code = """
import sys
from ktae import cli

def app(**_):
    for i in range(100_000):
        print(i)

cli.app = app
cli.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=30) == 141
    process.stderr.close()


def test_ctrl_c():
    code = """
import time
import typer
from ktae import cli

@cli.app.command("wait")
def wait():
    print("ready", flush=True)
    time.sleep(60)

cli.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130
