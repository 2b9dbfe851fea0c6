"""Dumps of every kind, and a real browser to open their pages in.

The browser is Chromium, driven by playwright: `KTAE_CHROMIUM` names the binary, else `chromium` is
looked for on the path. axe-core, for accessibility, is looked for in `node_modules/` (`npm install
--no-save axe-core`) or where `KTAE_AXE` says.
"""

import os
import random
import shutil
from pathlib import Path

import pytest
from dumps import page_data
from saved_outputs import write_lines

ROOT = Path(__file__).resolve().parents[2]

OFF = ("gpu", "background-networking", "component-update", "sync")
FLAGS = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{x}" for x in OFF)]


@pytest.fixture
def page(tmp_path):
    """The page's data of rows, as `dumps.page_data` makes it of a dump."""
    from ktae.report import inputs

    def make(rows, *estimator, **options):
        dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
        return page_data(dump, *estimator, **options)

    return make


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """A run folder as `ktae train` leaves it; its rollouts are the demo's worked solutions."""
    from ktae.experiments.demo import sums
    from ktae.experiments.demo.model import make_tokenizer
    from ktae.experiments.run_folder import RunFolder

    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    recipe = (ROOT / "recipes/demo/grpo-ktae.yaml").read_text(encoding="utf-8")
    folder.create(recipe)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder.tokenizer)
    rng = random.Random(0)
    problems = iter(sums.train_problems(12, seed=0))
    for step in range(1, 4):
        rows = []
        for group in range(4):
            problem = next(problems)
            for _ in range(6):
                text = sums.worked_solution(problem, rng)
                right = float(sums.extract_answer(text) == problem.answer)
                row = {"group": group, "step": step, "prompt": problem.prompt, "response": text}
                ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                row |= {"answer": str(problem.answer), "token_ids": ids, "reward": right}
                rows.append(row)
        write_lines(folder.rollouts / f"step-{step}.jsonl", rows)
        folder.append_metrics({"step": step, "entropy": 0.5 / step, "kl": 0.01 * step})
    return folder.path


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    binary = os.environ.get("KTAE_CHROMIUM") or shutil.which("chromium")
    if binary is None:
        pytest.skip("needs Chromium: no 'chromium' on the path, and KTAE_CHROMIUM is not set")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=binary, args=FLAGS, timeout=120_000)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Open a page at a fragment. Any console message of a problem, or any request, is a failure."""
    contexts, troubles = [], []

    def open_(path, fragment="", *, width=1280, height=900, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (troubles.append("a dialog"), dialog.dismiss()))
        page.on("console", lambda m: m.type in ("error", "warning") and troubles.append(m.text))
        page.on(
            "request",
            lambda r: r.url.split("#")[0] != path.as_uri() and troubles.append(f"request {r.url}"),
        )
        page.goto(f"{path.as_uri()}#{fragment}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def page_of(tmp_path, open_page):
    """Open the page of some rows at a fragment; further arguments are those of `write_report`."""
    from ktae.report.page import write_report

    def open_(rows, fragment="view=rollouts&group=1", **options):
        path = write_lines(tmp_path / "r.jsonl", rows)
        write_report(path, tmp_path / "r.html", **options)
        return open_page(tmp_path / "r.html", fragment)

    return open_


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    path = Path(os.environ.get("KTAE_AXE", ROOT / "node_modules/axe-core/axe.min.js"))
    if not path.is_file():
        pytest.skip(f"needs axe-core at {path}: npm install --no-save axe-core, or set KTAE_AXE")
    return path.read_text(encoding="utf-8")
