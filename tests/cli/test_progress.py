"""Progress where the output is no terminal: lines."""

import io

from rich.console import Console

from ktae.cli.progress import Bars


def test_lines():
    out = io.StringIO()
    with Bars(Console(file=out), lines=2) as bars:
        for done in range(1, 9):
            bars.show("training", done, 8, "reward 0.5")
    assert out.getvalue().splitlines() == [
        "training 1/8  reward 0.5",
        "training 4/8  reward 0.5",
        "training 8/8  reward 0.5",
    ]
