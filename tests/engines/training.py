"""`ktae` as a user runs it: a process, with what it leaves in a run folder."""

import contextlib
import io
import json
import subprocess
import sys

import in_process


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


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
