"""How the command line ends: when it is asked to, and when nobody reads it."""

import json
import os
import signal
import subprocess
import sys

import in_process
import pytest


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["sigterm", "ctrl-c"]
)
def test_a_signal_ends_it_as_an_exception_does(number, status):
    code = """
import signal, time
from ktae import cli

# A shell starts what runs in the background with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

@cli.app.command("wait")
def wait():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("tidied up", flush=True)

cli.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.communicate(timeout=30) == ("tidied up\n", "")
    assert process.returncode == status


@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [(["--help"], ""), (["--help"], "1"), (["show", "rollouts.jsonl"], "")],
)
def test_a_reader_that_goes_away_is_no_error(arguments, unbuffered, tmp_path):
    """As in `ktae show ... | head -1`: no traceback."""
    rows = [
        {"group": "a", "response": f"so {i} " * 40_000, "reward": i, "token_ids": [i] * 40_000}
        for i in (0, 1)
    ]
    (tmp_path / "rollouts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    process = subprocess.Popen(
        [sys.executable, "-m", "ktae", *arguments], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    process.stdout.close()
    said = process.stderr.read()
    assert "Traceback" not in said and "roken" not in said
    assert process.wait(timeout=60) == 1
    process.stderr.close()


def test_names_that_are_not_utf_8(command, tmp_path):
    """As file, as one of several, as a folder of several, and without groups."""
    for name in ("a\udce9.jsonl", "b.jsonl", "d\udce9/x.jsonl", "d\udce9/y.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"group": "g", "response": "r", "reward": 1}\n')
    (tmp_path / "n\udce9.jsonl").write_text('{"response": "r", "reward": 1}\n')
    output = "o\udce9.html"
    for inputs in (["a\udce9.jsonl"], ["a\udce9.jsonl", "b.jsonl"], ["d\udce9"], ["n\udce9.jsonl"]):
        assert command("report", *inputs, "-o", output, "--json").status == 0
        assert (tmp_path / output).exists()
    assert command("score", "d\udce9", "--join", "-o", "s\udce9.parquet").status == 0
    assert (tmp_path / "s\udce9.tokens.parquet").exists()


def test_bad_usage_and_bad_input():
    """What Typer says of the one, and one line of ours about the other."""
    for arguments, said in (
        (["score", "--nope", "x"], "ktae score -h"),
        (["scor"], "'scor'"),
        (["show", "x.jsonl", "--step", "one"], "--step"),
        (["show", "x.jsonl"], "ktae: x.jsonl "),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ktae", *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("asked_for", [True, False])
def test_engines_report_their_usage_only_if_asked_to(monkeypatch, asked_for):
    names = ("HF_HUB_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED", "VLLM_NO_USAGE_STATS")
    for name in names:
        monkeypatch.setenv(name, "as the user has it")
        if not asked_for:
            monkeypatch.delenv(name)
    assert in_process.ktae("--version") == 0
    got = [os.environ[name] for name in names]
    assert got == (["as the user has it"] * 3 if asked_for else ["1", "0", "1"])
