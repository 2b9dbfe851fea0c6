"""The pictures of a report, from rollouts of real models.

    python docs/report_pictures.py INPUT TITLE [TOKENIZER]

Needs playwright and a `chromium` on the path (or KTAE_CHROMIUM).
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from ktae.report.page import write_report
from ktae.rollouts.options import ReadOptions

IMAGES = Path(__file__).parent / "images"


def main(rollouts: Path, tokenizer: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder, "report.html")
        write_report(rollouts, path, ReadOptions(tokenizer))
        binary = os.environ.get("KTAE_CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1360, "height": 1100})
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.screenshot(path=IMAGES / "report-overview.png")
        page.click("#to-rollouts")
        page.locator(".t:is(.p8, .n8)").first.click()
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
