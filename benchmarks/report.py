"""What a report costs: time to build, size of the file, first paint, frames while scrolling.

    python benchmarks/report.py rollouts.jsonl.gz --tokenizer FOLDER --copies 1

Builds the page of a dump in a process of `ktae report` (`--copies` repeats its groups under other
labels), opens it in headless Chromium and scrolls each long list for two seconds. Appends one row
to results/report.csv. Needs playwright and a `chromium` on the path (or KTAE_CHROMIUM).
"""

import argparse
import gzip
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from estimator import append_rows, machine
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]

SCROLL = """
async (selector) => {
  const box = selector ? document.querySelector(selector) : document.scrollingElement;
  const gaps = [];
  let last = await new Promise(requestAnimationFrame);
  const end = last + 2000;
  while (last < end) {
    box.scrollTop += 60;
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 1) box.scrollTop = 0;
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv", type=Path, default=HERE / "results/report.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dump, n_rollouts = copied(arguments.rollouts, arguments.copies, Path(folder))
        page = Path(folder, "report.html")
        times = [build(dump, arguments.tokenizer, page) for _ in range(arguments.repeats)]
        seconds, cpu_seconds = zip(*times, strict=True)
        row = {
            "dump": arguments.rollouts.name.split(".")[0],
            "copies": str(arguments.copies),
            "rollouts": str(n_rollouts),
            "build_s": f"{statistics.median(seconds):.1f}",
            "build_s_all": " ".join(f"{x:.1f}" for x in seconds),
            "build_cpu_s": f"{statistics.median(cpu_seconds):.1f}",
            "load_average": f"{os.getloadavg()[0]:.1f}",
            "file_mb": f"{page.stat().st_size / 1e6:.2f}",
            **in_browser(page, arguments.repeats),
        }
    print(json.dumps(row, indent=1))
    append_rows(arguments.csv, [row | machine()])


def copied(path: Path, copies: int, folder: Path) -> tuple[Path, int]:
    """The dump with its groups `copies` times, and its number of rollouts."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    out = folder / "rollouts.jsonl"
    with out.open("w", encoding="utf-8") as stream:
        for copy in range(copies):
            for row in rows:
                stream.write(json.dumps(row | {"group": f"{row['group']}/{copy}"}) + "\n")
    return out, copies * len(rows)


def build(dump: Path, tokenizer: str, page: Path) -> tuple[float, float]:
    """Seconds on the clock and of processor time; on a shared machine the first is the larger."""
    command = [sys.executable, "-m", "ktae", "report", str(dump), "--output", str(page)]
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--tokenizer", tokenizer], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, cpu


def in_browser(path: Path, repeats: int) -> dict[str, str]:
    """Medians over fresh browser contexts: paint, readiness; and frames over all scrolling."""
    binary = os.environ.get("KTAE_CHROMIUM") or shutil.which("chromium")
    paints: list[float] = []
    readies: list[float] = []
    gaps: dict[str, list[float]] = {"rollouts": [], "groups": [], "tokens": []}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=binary, args=FLAGS)
        for _ in range(repeats):
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.goto(f"{path.as_uri()}#view=rollouts")
            page.wait_for_selector("html[data-ready]", timeout=60_000)
            readies.append(page.evaluate("performance.now()"))
            paints.append(
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            )
            for view, box in (("rollouts", None), ("groups", ".scroller"), ("tokens", ".scroller")):
                page.evaluate(f"location.hash = 'view={view}'")
                page.wait_for_timeout(500)
                gaps[view] += page.evaluate(SCROLL, box)
            page.context.close()
        browser.close()
    row = {
        "first_paint_ms": f"{statistics.median(paints):.0f}",
        "ready_ms": f"{statistics.median(readies):.0f}",
    }
    for view, found in gaps.items():
        found.sort()
        row[f"{view}_frame_p50_ms"] = f"{found[len(found) // 2]:.1f}"
        row[f"{view}_frame_p95_ms"] = f"{found[int(0.95 * len(found))]:.1f}"
        row[f"{view}_frame_max_ms"] = f"{found[-1]:.1f}"
        row[f"{view}_over_50ms"] = f"{sum(gap > 50 for gap in found)}/{len(found)}"
    return row


if __name__ == "__main__":
    main()
