"""Stock `verl.trainer.main_ppo` on Ray, with TransferQueue and FSDP2, trains the demo on the CPU.

`verl_on_cpu` beside this file is what verl lacks for that. It also keeps the rows that each
update's loss was given; the tests hold their advantages against the core's own, row by row. A start
takes about a minute, nearly all of it imports in a dozen processes, so each run shows several
things at once.
"""

import collections
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from extras import require
from saved_outputs import write_lines
from tiny_qwen import make_qwen
from verl_one_step import recipe
from verl_run import TIME_LIMIT, Run, check_updates, merged, padding, two_nodes

from ktae.report.page import write_report

require("verl")


def test_dapo_on_two_nodes_a_worker_of_one_is_killed_and_the_run_resumes(base, tmp_path):
    """With padding rows: 40 rollouts in minibatches of 16, so verl fills up to 48. Both runs join
    a Ray cluster that is up already, one rank on each of its nodes."""
    algorithm = {
        "loss": "dapo",
        "clip_high": 0.28,
        "overlong_buffer": 56,  # a response of more than 8 tokens is penalised
        "resampling_rounds": 3,
    }
    overrides = {"actor_rollout_ref.actor.ppo_mini_batch_size": 2}
    content = recipe(base, "dapo", algorithm=algorithm, nodes=2, prompts=5, overrides=overrides)
    with two_nodes(tmp_path / "record") as (cluster, joining):
        broken = Run(content, tmp_path, variables=joining)
        wait_for_a_checkpoint(broken)
        workers = [pid for pid in descendants(cluster.pid) if "WorkerDict" in command(pid)]
        assert len({parent(pid) for pid in workers}) == len(workers) == 2
        os.kill(workers[-1], signal.SIGKILL)
        status, log = broken.wait()
        assert status == 1 and "ActorDiedError" in log, log[-3000:]
        assert broken.checkpoints()[0] == "global_step_1" and last_checkpoint(broken) == 1
        first = merged(broken.updates(first=3))
        shutil.rmtree(broken.record)

        resumed = Run(content, tmp_path, "--resume", variables=joining).succeed()
    assert [line["step"] for line in resumed.metrics()] == [2]
    assert "global_step_2" in resumed.checkpoints() and last_checkpoint(resumed) == 2

    steps = [first, merged(resumed.updates())]
    assert [len(step["uid"]) for step in steps] == [48, 48]
    for step in steps:
        rows = padding(step)
        assert len(rows) == 8 and len(set(step["uid"])) == 5 + 1
        assert not any(any(step["advantages"][row]) for row in rows)
        check_dynamic_sampling(step, rows)
    check_updates(steps)
    assert resumed.metrics()[0]["data"]["credit/seconds"] > 0
    check_report(resumed.output, steps, tmp_path / "report.html")


def check_dynamic_sampling(step, padded):
    """Overlong responses lose some reward, and the verdicts of no group are all equal."""
    infos = step["infos"]
    kept = set(range(len(infos))) - set(padded)
    assert sum(infos[row]["overlong"] for row in kept) > 0
    for uid in {step["uid"][row] for row in kept}:
        own = [row for row in kept if step["uid"][row] == uid]
        assert {infos[row]["acc"] for row in own} == {0.0, 1.0}


def check_report(folder, steps, out):
    """A report of the run folder: verl's own dump and metrics, read with the run's tokenizer."""
    # The run that was killed may not have come to write its step's rollouts.
    dumped = {
        number: step
        for number, step in enumerate(steps, start=1)
        if (folder / f"rollouts/{number}.jsonl").exists()
    }
    assert 2 in dumped
    dump = write_report([folder], out)
    assert (dump.unit, dump.notes.counts["made"], dump.notes.counts["rejected"]) == ("tokens", 1, 0)
    assert dump.notes.counts["padding"] == 8 * len(dumped)
    rows = dump.rollouts.to_pylist()
    for number, step in dumped.items():
        own = [row for row in rows if row["step"] == number]
        kept = [i for i, uid in enumerate(step["uid"]) if not uid.startswith("pad")]
        assert len(own) == len(kept) == 40
        by_group = collections.Counter(row["group"] for row in own)
        assert sorted(by_group.values()) == [8] * 5
        assert sum(row["correct"] for row in own) == sum(step["infos"][i]["acc"] for i in kept)


def last_checkpoint(run):
    file = run.output / "checkpoints/latest_checkpointed_iteration.txt"
    return int(file.read_text()) if file.exists() else 0


def wait_for_a_checkpoint(run):
    deadline = time.monotonic() + TIME_LIMIT
    while not last_checkpoint(run):
        assert run.process.poll() is None, run.log.read_text(encoding="utf-8")[-6000:]
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.1)


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_mathematics_in_the_colocated_asynchronous_mode(base, tmp_path):
    r"""A file of problems, and the grader's own processes inside verl's reward worker.

    The model is a Qwen2, with which verl builds prompts as for those of the paper.
    """
    model, tokenizer = make_qwen(base, tmp_path)
    overrides = {"actor_rollout_ref.model.tokenizer_path": str(tokenizer)}
    content = recipe(model, "math", overrides=overrides)
    file = str(math_problems(model, tokenizer, tmp_path))
    content["task"] = {"source": "file", "train": file, "test": file, "instruction": None}
    content["rollout"]["max_response_length"] = SHORT
    content["verl"]["mode"] = "colocate_async"
    trained = Run(content, tmp_path).succeed()
    updates = trained.updates()
    assert len(updates) == 2
    check_updates(updates)

    given = merged(updates)
    acc, unanswered, undecided = (
        [info[name] for info in given["infos"]] for name in ("acc", "unanswered", "undecided")
    )
    dumped = trained.dumped()
    assert sorted(zip(given["uid"], acc, undecided, strict=True)) == sorted(
        (row["uid"].rsplit("_", 2)[0], *by_eye(row["output"], row["gts"])) for row in dumped
    )
    assert 0 < sum(acc) < len(acc) - sum(undecided)
    assert 0 < sum(unanswered) <= sum("}" not in row["output"] for row in dumped)
    unknown = sum(line["data"]["credit/unknown"] for line in trained.metrics()) / 2
    assert 0 < unknown == pytest.approx(sum(undecided) / len(undecided))


UNREADABLE = r"\frac{"
"""An answer that nothing can be compared with."""

SHORT = 40
"""Tokens of a response: so few that some end before their answer."""


def by_eye(output, answer):
    """(acc, undecided), for answers that are whole numbers."""
    boxes = re.findall(r"\\boxed\{([^{}]*)\}", output)
    return float(bool(boxes) and boxes[-1].strip() == answer), float(answer == UNREADABLE)


def math_problems(model, tokenizer, folder):
    """A file of eight of the demo's problems: five that the model sometimes
    solves, and three whose answer cannot be read."""
    problems = sometimes_solved(model, tokenizer, 5)
    rows = [{"problem": problem.prompt, "answer": problem.answer} for problem in problems]
    rows += [{"problem": problem.prompt, "answer": UNREADABLE} for problem in problems[:3]]
    return write_lines(folder / "sums.jsonl", rows)


def sometimes_solved(model, tokenizer, n):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ktae.experiments.demo import sums
    from ktae.experiments.generation import generate

    problems = [problem for problem in sums.train_problems(96, seed=0) for _ in range(8)]
    sampled = generate(
        AutoModelForCausalLM.from_pretrained(model),
        AutoTokenizer.from_pretrained(tokenizer, padding_side="left"),
        [problem.prompt for problem in problems],
        max_new_tokens=SHORT,
        temperature=1.0,
        batch_size=len(problems),
        seed=0,
    )
    solved = dict.fromkeys(problems, 0)
    for problem, text in zip(problems, sampled.texts, strict=True):
        solved[problem] += by_eye(text, str(problem.answer))[0]
    return sorted(solved, key=lambda problem: abs(solved[problem] - 4))[:n]


def test_verl_s_trainer(base, tmp_path):
    run = Run(recipe(base, "grpo"), tmp_path).succeed()
    assert "groups of 8" in run.log.read_text(encoding="utf-8"), "what it does is said at once"
    updates = run.updates()
    assert len(updates) == 2
    check_updates(updates)
    for update, line in zip(updates, run.metrics(), strict=True):
        acc = [info["acc"] for info in update["infos"]]
        assert line["data"]["credit/correct"] == pytest.approx(sum(acc) / len(acc))
