"""`report --watch`: when the page is written, and that it loads itself again in a browser."""

import re

import pytest
from dumps import ROLLOUTS, write_lines

pytest.importorskip("jinja2")

from ktae import InputError
from ktae.report import watch as watching
from ktae.report import write_report
from ktae.report.watch import watch


def write_step(run, step):
    (run / "rollouts").mkdir(parents=True, exist_ok=True)
    return write_lines(run / f"rollouts/step-{step}.jsonl", [x | {"step": step} for x in ROLLOUTS])


def test_the_page_is_written_when_files_have_changed(tmp_path, monkeypatch):
    """Also while a run writes at every look: steps 2 and 3."""
    run = tmp_path / "run"
    happens = [
        *[None, lambda: write_step(run, 1), None, None, None],
        *[lambda: write_step(run, 2), lambda: write_step(run, 3), None, None],
        *[lambda: (run / "metrics.jsonl").write_text("{}\n"), None],
        *[lambda: (run / "rollouts/step-3.jsonl").write_text("{\n"), None],
        *[lambda: write_step(run, 3), None],
    ]

    def sleep(seconds):
        change = happens.pop(0)
        if change is not None:
            change()

    monkeypatch.setattr(watching.time, "sleep", sleep)
    looks = watch([run], lambda: write_report(run, tmp_path / "r.html", regrade=False))
    seen = [next(looks) for _ in range(6)]
    assert happens == []
    assert [len(seen[i].rollouts) for i in (1, 2, 3, 5)] == [4, 12, 12, 12]
    assert isinstance(seen[0], InputError) and "nothing to read yet" in str(seen[0])
    assert isinstance(seen[4], InputError) and "broken JSON" in str(seen[4])


def test_the_page_loads_itself_again_and_keeps_the_readers_place(tmp_path, browser):
    run, path = tmp_path / "run", tmp_path / "r.html"
    write_step(run, 1)
    write_report(run, path, reloads=True)
    page = browser.new_page()
    page.clock.install()
    page.goto(f"{path.as_uri()}#view=overview")
    page.wait_for_selector("html[data-ready]")
    page.click("#menu summary")
    page.select_option("#palette", "paper")
    assert page.locator(".tile b").first.inner_text() == "4"
    write_step(run, 2)
    write_report(run, path, reloads=True)
    page.clock.fast_forward(11_000)
    page.locator(".tile", has_text=re.compile(r"^\s*8")).wait_for()
    assert page.get_attribute("html", "data-palette") == "paper"
    assert page.input_value("#palette") == "paper" and "view=overview" in page.url
    page.uncheck("#reload")
    page.evaluate("window.same = true")
    page.clock.fast_forward(30_000)
    assert page.evaluate("window.same") is True
    page.close()
