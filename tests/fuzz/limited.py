"""`limited.py COMMAND FOLDER...`: run a command on each folder, in a process of limited time and
memory; prints a JSON object of exit statuses by folder, negative where a signal ended it."""

import json
import os
import resource
import sys

from ktae.cli import app
from ktae.errors import InputError
from ktae.report.page import write_report  # noqa: F401  # imported once, before the processes part

SECONDS = 30
MEGABYTES = 500


def status_of(words):
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with open("/proc/self/statm") as file:
        bytes_now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (bytes_now + (MEGABYTES << 20),) * 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        app(words, standalone_mode=False)
    except InputError:
        os._exit(2)
    except BaseException as error:
        print(words, type(error).__name__, str(error)[:200], file=sys.stderr)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    command, *folders = sys.argv[1:]
    print(json.dumps({folder: status_of([command, folder]) for folder in folders}))
