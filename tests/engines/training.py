"""`ktae` as a user runs it: a process, with what it leaves in a run folder."""

import json
import subprocess
import sys


def ktae(*arguments, processes=1):
    """The command line, on one process or under torchrun on several."""
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    return [*launcher, "ktae", *map(str, arguments)]


def run(command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
