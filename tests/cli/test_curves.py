"""`ktae curves` as a user runs it."""

import pytest
from saved_outputs import write_lines

pytest.importorskip("matplotlib")


@pytest.mark.parametrize(("name", "start"), [("c.png", b"\x89PNG"), ("c.svg", b"<?xml")])
def test_a_picture_and_its_numbers(command, tmp_path, name, start):
    run = tmp_path / "grpo-seed0"
    rows = [{"step": s, "reward": s / 10, "seconds": 2.5} for s in range(1, 11)]
    write_lines(run / "metrics.jsonl", rows)
    result = command("curves", run, "-o", name)
    assert (result.status, result.err) == (0, "")
    (cells,) = [x.split() for x in result.out.splitlines() if x.split()[:1] == ["grpo"]]
    assert cells == ["grpo", "1", "1", "-", "-", "2.5", "-"]
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(start)
    assert command("curves", run, "-o", name, "--json").status == 0
    assert (tmp_path / name).read_bytes() == picture, "the same runs are the same file"
