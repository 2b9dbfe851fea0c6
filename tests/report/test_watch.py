"""`report --watch`: when the page is written, and that it loads itself again in a browser."""

import itertools
import re

from dumps import ROLLOUTS
from saved_outputs import write_lines

from ktae import InputError
from ktae.cli import report as command
from ktae.report import write_report


def write_step(run, step):
    return write_lines(run / f"rollouts/step-{step}.jsonl", [x | {"step": step} for x in ROLLOUTS])


def test_the_page_is_written_when_files_have_changed(tmp_path, monkeypatch):
    run = tmp_path / "run"
    happens = [
        *[None, lambda: write_step(run, 1), None, lambda: write_step(run, 2)],
        lambda: (run / "metrics.jsonl").write_text("{}\n"),
        lambda: (run / "rollouts/step-2.jsonl").write_text("{\n"),
        lambda: write_step(run, 2),
    ]
    monkeypatch.setattr(command.time, "sleep", lambda _: (happens.pop(0) or (lambda: None))())
    seen = []
    for _ in itertools.islice(command.changes([run]), 6):
        try:
            seen.append(len(write_report(run, tmp_path / "r.html", regrade=False).rollouts))
        except InputError as error:
            seen.append(str(error))
    assert happens == []
    assert "does not exist" in seen[0]
    assert seen[1:] == [4, 8, 8, 4, 8]  # the broken file is left out


def test_the_page_loads_itself_again_and_keeps_the_readers_place(tmp_path, browser):
    run, path = tmp_path / "run", tmp_path / "r.html"
    write_step(run, 1)
    write_report(run, path, reloads=True)
    page = browser.new_page()
    page.clock.install()
    page.goto(f"{path.as_uri()}#view=overview")
    page.wait_for_selector("html[data-ready]")
    page.click("#menu summary")
    page.select_option("#theme", "dark")
    assert page.locator(".tile b").first.inner_text() == "4"
    write_step(run, 2)
    write_report(run, path, reloads=True)
    page.clock.fast_forward(11_000)
    page.locator("html[data-ready] .tile", has_text=re.compile(r"^\s*8")).wait_for()
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.input_value("#theme") == "dark" and "view=overview" in page.url
    page.uncheck("#reload")
    page.evaluate("window.same = true")
    page.clock.fast_forward(30_000)
    assert page.evaluate("window.same") is True
    page.close()
