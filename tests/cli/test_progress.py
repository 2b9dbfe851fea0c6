"""Progress: lines where the output is no terminal, and a bar that knows its end where it is."""

import io

from rich.console import Console
from saved_outputs import write_lines

from ktae.cli import progress
from ktae.cli.progress import Bars, working
from ktae.files.inputs import read_input


def test_a_line_now_and_then(monkeypatch):
    out, now = io.StringIO(), iter(range(0, 100, 3))
    monkeypatch.setattr(progress, "time", type("", (), {"monotonic": lambda: next(now)}))
    with Bars(Console(file=out)) as bars:
        for done in range(1, 9):
            bars.show("training", done, 8, "reward 0.5")
    lines = out.getvalue().splitlines()
    assert 1 < len(lines) < 4 and lines[0].startswith("training ") and "reward 0.5" in lines[0]


def test_reading_is_shown_by_its_bytes(tmp_path, monkeypatch):
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    files = [write_lines(tmp_path / f"{i}.jsonl", [{"row": i}] * 10) for i in range(4)]
    read_input(files[0])  # what was read before does not count
    with working("reading", [tmp_path]) as tell:
        for file in files[:3]:
            read_input(file)
        tell.__self__.refresh()
    assert "75%" in out.getvalue()
