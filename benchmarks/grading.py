"""How well the grader agrees with others on real outputs, and how fast it is.

    python benchmarks/grading.py FOLDER

FOLDER holds files of graded outputs, one object a line: group, answer, response, reward. Appends
one row a file and grader to results/grading.csv, and writes every output on which the default
grader and the file differ to results/grading-differences.csv. The graders are ours by name, and
`trl`: TRL's accuracy_reward, in this process. Seconds are of grading alone, with the workers warm;
processor seconds include the workers' start.
"""

import argparse
import importlib.metadata
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

from estimator import append_rows, machine, write_rows

from ktae.experiments.outputs import read
from ktae.grading import GradingPool, Outcome, Task, Verdict
from ktae.rollouts.options import ReadOptions

HERE = Path(__file__).parent
FILES = (
    "ktae_eval_7B_k1",
    "qwen25math_math_cot_100_k8",
    "amc23_r1distill_qwen1p5b_runs",
    "mathl5_8models_k8",
    "gsm8k_openai_example_solutions_k4",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--graders", nargs="+", default=["ktae", "math-verify", "trl"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--csv", type=Path, default=HERE / "results/grading.csv")
    arguments = parser.parse_args()
    differences, pooled = [], ReadOptions(pool_models=True)
    for name in arguments.files:
        outputs = read(arguments.folder / f"{name}.jsonl.gz", pooled).to_pylist()
        for grader in arguments.graders:
            row, verdicts = measure(outputs, grader, arguments.workers)
            print(name, row, flush=True)
            append_rows(arguments.csv, [{"file": name} | row | machine()])
            pairs = zip(outputs, verdicts, strict=True) if grader == "ktae" else ()
            for number, (output, verdict) in enumerate(pairs, start=1):
                if output["reward"] != verdict.correct:
                    where = {"file": name, "row": number, "problem": output["problem"]}
                    said = {"stored": output["reward"], "outcome": verdict.outcome.value}
                    reasons = {"rule": verdict.rule, "reason": verdict.reason}
                    differences.append(where | said | reasons)
    write_rows(HERE / "results/grading-differences.csv", differences)


def measure(
    outputs: list[dict[str, Any]], grader: str, workers: int
) -> tuple[dict[str, object], list[Verdict]]:
    cpu_before = cpu_seconds()
    if grader == "trl":
        workers, started = 1, time.perf_counter()
        verdicts = list(map(by_trl, outputs))
    else:
        with GradingPool(workers, grader=grader) as pool:
            list(pool.grade_all([Task(r"\boxed{1}", "1")] * 2 * workers))  # starts all workers
            started = time.perf_counter()
            verdicts = list(pool.grade_all(Task(o["response"], o["answers"]) for o in outputs))
    seconds = time.perf_counter() - started
    pairs = [(v.correct == 1, o["reward"] == 1) for v, o in zip(verdicts, outputs, strict=True)]
    counts = Counter(verdict.outcome for verdict in verdicts)
    return {
        "grader": grader,
        "outputs": len(outputs),
        "agree": f"{sum(ours == theirs for ours, theirs in pairs) / len(outputs):.4f}",
        "correct_only_here": pairs.count((True, False)),
        "correct_only_in_file": pairs.count((False, True)),
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "workers": workers,
        "seconds": f"{seconds:.2f}",
        "cpu_ms_each": f"{1000 * (cpu_seconds() - cpu_before) / len(outputs):.2f}",
        "math_verify": importlib.metadata.version("math-verify"),
        "trl": importlib.metadata.version("trl"),
    }, verdicts


def by_trl(output: dict[str, Any]) -> Verdict:
    """TRL's `accuracy_reward`; of several accepted answers one is enough."""
    from trl.rewards import accuracy_reward

    completion = [[{"role": "assistant", "content": output["response"]}]]
    golds = (answer if "$" in answer else f"${answer}$" for answer in output["answers"])
    rewards = [accuracy_reward(completion, [gold])[0] for gold in golds]
    if 1.0 in rewards:
        return Verdict(Outcome.CORRECT)
    return Verdict(Outcome.UNDECIDED if None in rewards else Outcome.INCORRECT)


def cpu_seconds() -> float:
    """Processor seconds of this process and of the workers that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
