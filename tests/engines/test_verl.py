"""Stock `verl.trainer.main_ppo` on Ray, with TransferQueue and FSDP2, trains the demo on the CPU.

`verl_on_cpu` beside this file is what verl lacks for that. It also keeps the rows that each
update's loss was given; the tests hold their advantages against the core's own, row by row. A start
takes about a minute, nearly all of it imports in a dozen processes, so each run shows several
things at once.
"""

import json
import re
import shutil
import time

import psutil
import pytest
from extras import require
from saved_outputs import write_lines
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl_run import TIME_LIMIT, Run, check_updates, merged, padding, recipe, two_nodes

require("verl")


def test_verl_s_trainer(base, tmp_path):
    run = Run(recipe(base, "grpo"), tmp_path).succeed()
    updates = run.updates()
    assert len(updates) == 2
    check_updates(updates)
    for update, line in zip(updates, run.metrics(), strict=True):
        acc = [info["acc"] for info in update["infos"]]
        assert line["data"]["credit/correct"] == pytest.approx(sum(acc) / len(acc))


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
        processes = psutil.Process(cluster.pid).children(recursive=True)
        titled = psutil.process_iter(["cmdline"])
        workers = [x for x in titled if "WorkerDict" in str(x.info["cmdline"]) and x in processes]
        assert len({worker.ppid() for worker in workers}) == len(workers) == 2
        workers[-1].kill()
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


def check_dynamic_sampling(step, padded):
    """Overlong responses lose some reward, and the verdicts of no group are all equal."""
    infos = step["infos"]
    kept = set(range(len(infos))) - set(padded)
    assert sum(infos[row]["overlong"] for row in kept) > 0
    for uid in {step["uid"][row] for row in kept}:
        own = [row for row in kept if step["uid"][row] == uid]
        assert {infos[row]["acc"] for row in own} == {0.0, 1.0}


def last_checkpoint(run):
    file = run.output / "checkpoints/latest_checkpointed_iteration.txt"
    return int(file.read_text()) if file.exists() else 0


def wait_for_a_checkpoint(run):
    deadline = time.monotonic() + TIME_LIMIT
    while not last_checkpoint(run):
        assert run.process.poll() is None, run.log.read_text(encoding="utf-8")[-6000:]
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.1)


def test_mathematics_in_the_colocated_asynchronous_mode(base, tmp_path):
    """A file of problems, and the grader's own processes inside verl's reward worker."""
    model = writes_latex(base, tmp_path / "model")
    content = recipe(model, "math")
    file = str(math_problems(model, tmp_path))
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


def writes_latex(base, folder):
    r"""The demo's base model, whose tokenizer spells `\boxed{` what was `box`."""
    shutil.copytree(base, folder)
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    words = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    vocabulary[r"\boxed{"] = vocabulary.pop("box")
    (folder / "tokenizer.json").write_text(json.dumps(words))
    return folder


def math_problems(model, folder):
    """A file of eight of the demo's problems: five that the model sometimes solves, and three whose
    answer cannot be read."""
    problems = sometimes_solved(model, 5)
    rows = [{"problem": problem.prompt, "answer": problem.answer} for problem in problems]
    rows += [{"problem": problem.prompt, "answer": UNREADABLE} for problem in problems[:3]]
    return write_lines(folder / "sums.jsonl", rows)


def sometimes_solved(model, n):
    from ktae.experiments.demo import sums
    from ktae.experiments.generation import generate

    problems = [problem for problem in sums.train_problems(96, seed=0) for _ in range(8)]
    sampled = generate(
        AutoModelForCausalLM.from_pretrained(model),
        AutoTokenizer.from_pretrained(model, padding_side="left"),
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
