"""`ktae` as a user runs it: a process, with what it leaves in a run folder."""

import contextlib
import io
import json
import subprocess
import sys
import time

import in_process
import numpy as np


def ktae(*arguments, processes=1):
    """The command line, on one process or under torchrun on several."""
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    return [*launcher, "ktae", *map(str, arguments)]


def run(command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)


def run_here(command):
    """The same in this process: one of its own takes ten seconds to import torch and TRL."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = in_process.ktae(*command[command.index("ktae") + 1 :])
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def curve(folder, *more):
    """(steps, names) what the training did, step by step."""
    names = ("step", "loss", "reward", "entropy", *more)
    return np.array([[line[name] for name in names] for line in metrics(folder)])


def stopped(command, folder, number, *, steps):
    """A run that got the signal once it had done so many steps: its status and output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 200
    while not (folder / "metrics.jsonl").exists() or len(metrics(folder)) < steps:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert not (folder / "summary.json").exists()
    return process.returncode, out, err


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
