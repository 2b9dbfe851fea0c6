"""`ktae train` without the training: the same arguments, the same files, numbers from the seed.

Environment: FAKE_FAIL names a method and seed that fail, `grpo/seed3`, and FAKE_FAIL_RESUMED one
that fails when it is resumed; FAKE_STOP one that stops itself after a step of each of its first so
many starts, `grpo/seed3 2 SIGKILL`; with FAKE_DEAF none hears a Ctrl-C; with FAKE_GATE a run waits
after its first step until there is such a file; every start is written to FAKE_STARTS, and its
process to FAKE_STARTS.pids.
"""

import os
import signal
import sys
import time
import zlib
from pathlib import Path

from ktae import recipe as recipes
from ktae.runs import RunFolder, write_json


def main() -> None:
    arguments = sys.argv[1:]
    resume = "--resume" in arguments
    arguments = [a for a in arguments if a != "--resume"]
    at = arguments.index("--output")
    folder = RunFolder(Path(arguments[at + 1]))
    recipe = recipes.load(arguments[0], arguments[1:at])
    with open(os.environ["FAKE_STARTS"], "a") as starts:
        starts.write(f"{recipe.name} {recipe.seed} {'resume' if resume else 'start'}\n")
    with open(os.environ["FAKE_STARTS"] + ".pids", "a") as pids:
        pids.write(f"{os.getpid()}\n")
    fails = [os.environ.get("FAKE_FAIL"), resume and os.environ.get("FAKE_FAIL_RESUMED")]
    if f"{recipe.name}/seed{recipe.seed}" in fails:
        print("loading")
        raise ValueError("the disk is made of cheese")
    if not resume:
        folder.create(recipes.dump(recipe))
    train(recipe, folder, len(folder.read_metrics()))


def stop_signal(recipe: recipes.Recipe) -> int | None:
    """What this start of the run sends to itself."""
    name, times, what = os.environ.get("FAKE_STOP", "none 0 SIGKILL").split()
    if name != f"{recipe.name}/seed{recipe.seed}":
        return None
    starts = Path(os.environ["FAKE_STARTS"]).read_text().splitlines()
    so_far = sum(line.startswith(f"{recipe.name} {recipe.seed} ") for line in starts)
    return signal.Signals[what] if so_far <= int(times) else None


def train(recipe: recipes.Recipe, folder: RunFolder, done: int) -> None:
    stop = []
    own_signal = stop_signal(recipe)
    is_deaf = "FAKE_DEAF" in os.environ
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if is_deaf else lambda got, _: stop.append(got))
    gate = Path(os.environ["FAKE_GATE"]) if "FAKE_GATE" in os.environ else None
    began = time.monotonic()
    # A method's effect is the same at every seed but for a little: pairs are worth something.
    luck = zlib.crc32(str(recipe.seed).encode()) % 97 / 97
    effect = (
        0.1 * (recipe.credit is not None)
        + zlib.crc32(f"{recipe.name}{recipe.seed}".encode()) % 89 / 8900
    )
    for step in range(done + 1, recipe.steps + 1):
        while step == 2 and gate and not gate.exists() and not stop:
            time.sleep(0.02)
            assert time.monotonic() < began + 200, "nobody opened the gate"
        if own_signal and step > done + 1:
            os.kill(os.getpid(), own_signal)
        accuracy = 0.3 + 0.3 * luck + effect * step / recipe.steps
        line = {"rewards/correct/mean": accuracy, "reward": accuracy, "seconds": 0.1}
        line |= {"completions/mean_length": 30 - step * luck, "entropy": 0.5 - accuracy / 3}
        folder.append_metrics({"step": step} | line)
        if stop:
            sys.exit(128 + stop[0])
    after = {"sampled_accuracy": accuracy, "greedy_accuracy": accuracy + 0.05, "entropy": 0.2}
    after |= {"sampled_length": 30 - recipe.steps * luck}
    write_json(
        folder.summary,
        {"recipe": recipe.name, "seed": recipe.seed, "steps": recipe.steps, "after": after}
        | {"seconds_per_step": 0.1, "credit_seconds_per_step": None},
    )


if __name__ == "__main__":
    main()
