"""What `demo_ceiling.py` chooses and compares, on rows by hand."""

import sys
from pathlib import Path

from extras import require

require("transformers")
require("torch")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import demo_ceiling  # noqa: E402


def row(arm, seed, area, rate="0.001", role="fresh", language="sums"):
    return {"language": language, "arm": arm, "seed": seed, "rate": rate, "role": role} | {
        "area": str(area)
    }


def test_a_rate_is_chosen_on_its_arm_s_tuning_seeds_alone():
    rows = [
        row("grpo", "8", 0.2, "0.001", "tuning"),
        row("grpo", "9", 0.4, "0.001", "tuning"),
        row("grpo", "8", 0.35, "0.0003", "tuning"),
        row("grpo", "0", 0.9, "0.001", "fresh"),
        row("alone", "8", 0.9, "0.01", "tuning"),
        row("grpo", "8", 0.9, "0.01", "tuning", language="lists"),
    ]
    assert demo_ceiling.best_rate(rows, "sums", "grpo") == 0.0003


def test_differences_are_paired_by_fresh_seed():
    rows = [
        row("alone", "1", 0.5),
        row("grpo", "0", 0.25),
        row("grpo", "1", 0.375),
        row("alone", "0", 0.5),
        row("alone", "2", 0.9),
        row("grpo", "2", 0.1, role="tuning"),
        row("alone", "3", 0.9, language="lists"),
    ]
    assert demo_ceiling.differences(rows, "sums", "alone", "area").tolist() == [0.25, 0.125]
    assert demo_ceiling.differences(rows, "sums", "beside", "area").tolist() == []
