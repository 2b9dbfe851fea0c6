"""`ktae data`: training data."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ktae.cli.printing import Screen, note
from ktae.errors import InputError


def run(
    source: str,
    output: Path | None = None,
    test: Path | None = None,
    template: Literal["qwen-math", "plain"] = "qwen-math",
    name: str | None = None,
    as_json: bool = False,
) -> None:
    """Write the Parquet files that verl and TRL train from, out of one source.

    A file holds one problem a row: `problem` and `answer`, as JSON lines (also .gz) or Parquet.
    """
    from ktae.experiments.tasks import sources
    from ktae.experiments.tasks.base import write
    from ktae.experiments.templates import INSTRUCTION
    from ktae.rollouts.files import without_format

    is_known = source in sources.SOURCES
    stem = source if is_known else without_format(Path(source).name)
    splits = sources.load(source) if is_known else {"train": sources.load_file(Path(source))}
    if test is not None:
        splits["test"] = sources.load_file(test)
    if "test" not in splits:
        raise InputError(f"{source} has no problems to validate on; name a file of them: --test")
    instruction = INSTRUCTION if template == "qwen-math" else None
    rows = {x: [sources.as_row(y, instruction) for y in splits[x].problems] for x in splits}
    folder = output or Path("data") / stem
    counts = write(rows, folder, data_source=name or stem)
    without = {kind: split.without_answer for kind, split in splits.items()}
    for kind, n in without.items():
        if n:
            note(f"warning: {n} {kind} problems have no answer and are left out")
    screen = Screen(as_json)
    shown = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    screen.print(f"{folder}: {shown} problems, in verl/ and trl/")
    screen.end({"output": folder, "problems": counts, "without_answer": without})
