"""Whether torch can multiply bfloat16 matrices on this CPU, asked before torch multiplies any.

Some virtual machines advertise AMX and refuse it: there the first product of bfloat16 matrices ends
the process with an illegal instruction. oneDNN, which computes it, stays away from AMX if
`ONEDNN_MAX_CPU_ISA` says so. `prepare` finds out in a child process, and sets the variable where it
is needed.

When the variable must be set, as seen with torch 2.13 and `ONEDNN_VERBOSE=1`: oneDNN reads it at
the first matrix product of the process, of float32 too. So it may be set after `import torch`, and
after models are loaded; a process that has multiplied matrices before never sees it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from ktae.errors import InputError
from ktae.files.atomic import atomic_write

logger = logging.getLogger(__name__)

VARIABLE, VALUE = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
OLD_VARIABLE = "DNNL_MAX_CPU_ISA"
"""oneDNN still reads this name."""

CPUINFO = Path("/proc/cpuinfo")
TIME_LIMIT = 120
"""Seconds. Without a busy disk, a probe takes about three."""

PROBE = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it may be about to die: no core file
import torch
from torch.nn import Linear, functional
rows = torch.ones(128, 128, dtype=torch.bfloat16)
rows @ rows
layer = Linear(128, 64, dtype=torch.bfloat16)
layer(rows).sum().backward()
heads = rows.reshape(1, 2, 128, 64).clone().requires_grad_()
functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum().backward()
"""
"""The products that training takes, large enough for oneDNN. Another text asks anew."""

COMMAND = [sys.executable, "-P", "-c", PROBE]

State = Literal["works", "capped", "dies"]
"""What bf16 does here: it works, works only with the variable, or ends the process with it too."""


class Answer(NamedTuple):
    """What is known of bf16 on this CPU."""

    state: State
    reason: str
    """How that is known, for messages."""


@functools.cache
def prepare() -> Answer:
    """Find out what bf16 does on this CPU; set the variable for this process and its children.

    Says so in one log line, a warning, where it sets it. Costs a second or more on a machine with
    AMX, once; nothing where there is no AMX, or where the user has set the variable.
    """
    answer = _answer()
    if answer.state == "capped":
        os.environ[VARIABLE] = VALUE
        logger.warning(
            "ktae: bfloat16 products end a process on this CPU, which advertises AMX and refuses "
            "it; ktae sets %s=%s for itself and what it starts, which helps",
            VARIABLE,
            VALUE,
        )
    return answer


def variables() -> dict[str, str]:
    """The variable, if it is set: for processes that inherit nothing from this one."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def require(what: str, instead: str) -> None:
    """Refuse what would end this process: bf16 on a CPU where not even the variable helps.

    Args:
        what: what computes in bf16, the subject of the message.
        instead: what the user can do.

    Raises:
        InputError: bf16 does not work here.
    """
    answer = prepare()
    if answer.state == "dies":
        raise InputError(f"{what} computes in bfloat16 on the CPU, and {answer.reason}; {instead}")


def exempt(
    environ: Mapping[str, str], system: str, machine: str, cpu: Mapping[str, str] | None
) -> str | None:
    """Why bf16 needs no probe; None if it needs one.

    Args:
        environ: the environment variables.
        system: `platform.system()`.
        machine: `platform.machine()`.
        cpu: the keys and values of the first processor in /proc/cpuinfo; None if it is unreadable.
    """
    for name in (VARIABLE, OLD_VARIABLE):
        if name in environ:
            return f"not probed: {name} is {environ[name]} already"
    if (system, machine) != ("Linux", "x86_64"):
        return f"not probed: {system} on {machine}"
    if cpu is not None and not any(flag.startswith("amx") for flag in cpu["flags"].split()):
        return "not probed: this CPU has no AMX, which is what some machines refuse"
    return None


def decide(ends: Callable[[bool], int | None]) -> State | None:
    """What bf16 does, from how probes end; None where they cannot tell.

    Args:
        ends: runs a probe, with the variable or without. Returns its exit status, negative for a
            signal, or None if it came to no end. Not asked with the variable where bf16 works
            without.
    """
    plain = ends(False)
    if plain == 0:
        return "works"
    if not _killed(plain):
        return None
    capped = ends(True)
    if capped == 0:
        return "capped"
    return "dies" if _killed(capped) else None


def _killed(status: int | None) -> bool:
    """Whether the processor ended it. A Python exception or a lack of memory does not count."""
    return status in (-signal.SIGILL, -signal.SIGSEGV, -signal.SIGBUS)


REASONS: dict[State, str] = {
    "works": "probed: its products come out",
    "capped": f"its products end the process; with {VARIABLE}={VALUE}, which ktae sets, they work",
    "dies": f"its products end the process on this machine, with {VARIABLE}={VALUE} too",
}


def _answer() -> Answer:
    cpu = _cpu()
    if reason := exempt(os.environ, platform.system(), platform.machine(), cpu):
        return Answer("works", reason)
    torch = _torch_version()
    if torch is None:
        return Answer("works", "not probed: torch is not installed")
    key = _key(cpu, torch)
    state = _remembered(key)
    if state is None:
        state = decide(_probe)
        if state is None:
            return Answer("works", "the probe could not tell: it failed before its products")
        _remember(key, state)
    return Answer(state, REASONS[state])


def _torch_version() -> str | None:
    """The version of the installed torch, which is not imported for it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, str] | None:
    """The first processor in /proc/cpuinfo; None if it is unreadable or has no flags.

    Reads no further: a large machine takes long to write all of it.
    """
    cpu: dict[str, str] = {}
    try:
        with CPUINFO.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, colon, value = line.partition(":")
                if not colon:  # the blank line after the first processor
                    break
                cpu[name.strip()] = value.strip()
    except OSError:
        return None
    return cpu if "flags" in cpu else None


def _key(cpu: Mapping[str, str] | None, torch: str) -> str:
    """Of everything that an answer depends on; the machine, as a home folder may have several."""
    about = {name: (cpu or {}).get(name) for name in ("model name", "stepping", "flags")}
    parts = [about, platform.node(), platform.release(), torch, PROBE]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _probe(capped: bool) -> int | None:
    variables = {"OMP_NUM_THREADS": "1"} | ({VARIABLE: VALUE} if capped else {})
    try:
        return subprocess.run(
            COMMAND,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIME_LIMIT,
            check=False,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return None


def _file() -> Path:
    """Holds the last answer: of one machine, since the next one asks again in seconds."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(caches)) / "ktae" / "bf16.json"


def _remembered(key: str) -> State | None:
    try:
        kept = json.loads(_file().read_text(encoding="utf-8"))
        state: State | None = kept["state"] if kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if state in REASONS else None


def _remember(key: str, state: State) -> None:
    file = _file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary:
            temporary.write_text(json.dumps({"key": key, "state": state}), encoding="utf-8")
    except (OSError, InputError) as error:  # only means to probe again
        logger.debug("what bf16 does is not remembered: %s", error)
