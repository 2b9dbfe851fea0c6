"""Write, into the current folder, what the README's commands take for granted.

`demo-model` (the demo's base model, with its tokenizer), `rollouts.jsonl`, TRL's `completions/`,
`outputs.json` in the form of the paper's authors, `a.jsonl` and `b.jsonl` to be compared, and
`problems/` with as many problems as AIME 2024 has.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktae.demo import SUMS
from ktae.demo.pretrain import base_model

GROUPS, ROLLOUTS = 4, 8


def main() -> None:
    link = Path("demo-model")
    if not link.exists():
        link.symlink_to(base_model(SUMS, 0))
    rows = rollouts()
    write_lines("rollouts.jsonl", rows)
    Path("completions").mkdir(exist_ok=True)
    trl = {
        "step": [1] * len(rows),
        "prompt": [row["prompt"] for row in rows],
        "completion": [row["response"] for row in rows],
        "accuracy": [float(row["reward"]) for row in rows],
        "advantage": [0.0] * len(rows),
    }
    pq.write_table(pa.table(trl), "completions/completions_00001.parquet")
    for name, right in (("a", 10), ("b", 25)):
        write_lines(f"{name}.jsonl", [answered(i, i < right) for i in range(30)])
    authors = [
        {"task_name": "own", "prompt": "1 + 1?", "gt": ["2"], "model_output": [r"\boxed{2}"]},
        {"task_name": "own", "prompt": "1 + 2?", "gt": ["3"], "model_output": ["no idea"]},
    ]
    Path("outputs.json").write_text(json.dumps(authors), encoding="utf-8")
    Path("problems").mkdir(exist_ok=True)
    problems = [
        {"problem": p.prompt.removeprefix("<bos> "), "answer": p.answer}
        for p in SUMS.test_problems(30)
    ]
    write_lines("problems/aime24.jsonl", problems)


def rollouts() -> list[dict[str, Any]]:
    """Worked solutions of the demo, mistakes included: some are right and some are wrong."""
    rng = random.Random(0)
    rows: list[dict[str, Any]] = []
    for group, problem in enumerate(SUMS.train_problems(GROUPS, 0)):
        for _ in range(ROLLOUTS):
            solution = SUMS.worked_solution(problem, rng)
            right = SUMS.extract_answer(solution) == problem.answer
            rows.append({"group": group, "prompt": problem.prompt, "response": solution})
            rows[-1]["reward"] = int(right)
    return rows


def answered(i: int, right: bool) -> dict[str, Any]:
    return {"group": f"own/{i}", "response": rf"\boxed{{{i + (not right)}}}", "answer": str(i)}


def write_lines(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
