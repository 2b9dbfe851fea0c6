"""docs/field.md: the shares that it tells are those of the bench."""

import csv
import re
import statistics
from collections import defaultdict

import pages

from ktae.cli.bench import DEFAULTS


def test_shares_are_the_means_of_the_bench():
    shares = defaultdict(list)
    with (pages.ROOT / "benchmarks/results/bench.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["share_of_ceiling"]:
                shares[row["estimator"]].append(float(row["share_of_ceiling"]))
    text = (pages.DOCS / "field.md").read_text("utf-8")
    named = dict(re.findall(r"`([a-z-]+)` ([+-]\d\.\d\d)", text))
    assert named == {name: f"{statistics.mean(shares[name]):+.2f}" for name in DEFAULTS}
