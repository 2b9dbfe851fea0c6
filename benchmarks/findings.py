"""What the page says first of real rollouts, and a comparison of two models: README's numbers.

    python benchmarks/findings.py FOLDER    # results/findings.csv

FOLDER holds dumps, one rollout a line.
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path

from estimator import machine, write_rows

from ktae.experiments import comparison, outputs
from ktae.report import inputs
from ktae.report.contents import contents

FILES = ("amc23_r1distill_qwen1p5b_runs", "ktae_eval_7B_k1")
COMPARED = "gsm8k_openai_example_solutions_k4", "openai-6b_finetuning", "openai-6b_verification"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rows = []
    for name in FILES:
        page = contents(inputs.load([folder / f"{name}.jsonl.gz"])).page
        rows += [{"file": name, "key": x.key, "says": x.sentence} for x in page.findings]
    name, *models = COMPARED
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = list(file)
    sides = {}
    with tempfile.TemporaryDirectory() as scratch:
        for model in models:
            path = Path(scratch, f"{model}.jsonl")
            path.write_text("".join(x for x in lines if json.loads(x)["model"] == model))
            sides[model] = outputs.read(path)
    says = [comparison.in_words(row) for row in comparison.paired_tests(sides)]
    rows += [{"file": name, "key": "compare", "says": text} for text in says]
    write_rows(Path(__file__).parent / "results/findings.csv", [row | machine() for row in rows])


if __name__ == "__main__":
    main()
