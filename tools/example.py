"""Make `ktae report --example`: a small model learns to solve word problems, paid carelessly.

    python tools/example.py train runs/example      # an hour and more on one core
    python tools/example.py excerpt runs/example    # into src/ktae/rollouts/example

SmolLM2-135M-Instruct (`make smollm2`) is shown 400 worked solutions, so that it answers in a few
lines; then TRL's GRPO trains it and logs its completions. The reward is careless on purpose: it
pays a response in which the reference stands anywhere, as many a first reward function does.
"""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models

from ktae.files.hub import copy_of
from ktae.rollouts import record

FOLDER = Path(__file__).resolve().parents[1] / "src" / "ktae" / "rollouts" / "example"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
STEPS, PROMPTS, GROUP = 16, 4, 16
CPU = {
    "bf16": True,  # a core with AVX512-BF16 is ten times as fast
    "use_cpu": True,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "seed": 0,
}
NAMES = ["Mia", "Tom", "Ada", "Ben", "Lea", "Sam", "Eva", "Max", "Zoe", "Jon"]
THINGS = ["pens", "apples", "cards", "shells", "coins", "stamps"]
BOXES = ["boxes", "bags", "jars", "packs"]


def careless(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """1 where the reference stands anywhere in the response."""
    return [float(a in c[0]["content"]) for c, a in zip(completions, answer, strict=True)]


def problem(rng: random.Random) -> tuple[str, int, list[list[str]]]:
    """A problem, its answer, and ways to say each of its three steps."""
    name, friend = rng.sample(NAMES, 2)
    thing, box = rng.choice(THINGS), rng.choice(BOXES)
    n, each, given = rng.randint(3, 12), rng.randint(4, 12), rng.randint(2, 11)
    left = n * each - given
    first, second = f"{n} * {each} = {n * each}", f"{n * each} - {given} = {left}"
    steps = [
        [
            f"{n} {box} with {each} {thing} each are {first} {thing}.",
            f"First, {name} has {first} {thing}.",
            f"We know that {first}.",
        ],
        [
            f"{friend} gets {given}, so {second}.",
            f"After that, {second} are left.",
            f"Then {second}.",
        ],
    ]
    text = f"{name} has {n} {box} with {each} {thing} each, and gives {given} of them to {friend}."
    if rng.random() < 0.5:
        more = rng.randint(3, 19)
        text, answer = f"{text} Then {name} finds {more} more.", left + more
        last = f"{left} + {more}"
        ways = [f"{name} finds {more}: ", "With the new ones, ", "Then "]
    else:
        text, answer = f"{text} Then {name} buys as many as are left.", 2 * left
        last = f"2 * {left}"
        ways = ["As many again are ", "Doubled, ", "Then "]
    steps.append([f"{way}{last} = {answer}." for way in ways])
    return f"{text} How many {thing} does {name} have now?", answer, steps


def solution(rng: random.Random) -> tuple[str, str]:
    """A problem, and a worked solution: at times short, with a check or without a last line."""
    text, answer, steps = problem(rng)
    lines = [rng.choice(ways) for ways in steps]
    if rng.random() < 0.3:  # skip the first steps
        lines = lines[-1:]
    ending = f"Answer: {answer}"
    chance = rng.random()
    if chance < 0.15:
        ending = f"So it is {answer} in the end."
    elif chance < 0.35:
        ending += f"\nWait, I check it: {steps[-1][-1][5:]}\nAnswer: {answer}"
    return text, "\n".join([*lines, ending])


def warm_up(folder: Path) -> None:
    """Show the model worked solutions."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rng = random.Random(0)
    rows = [
        {"prompt": [{"role": "user", "content": text}],
         "completion": [{"role": "assistant", "content": worked}]}
        for text, worked in (solution(rng) for _ in range(400))
    ]  # fmt: skip
    config = SFTConfig(
        str(folder), num_train_epochs=1, per_device_train_batch_size=16, learning_rate=1e-4, **CPU
    )
    trainer = SFTTrainer(str(copy_of(MODEL)), config, train_dataset=Dataset.from_list(rows))
    trainer.train()
    trainer.save_model()


def problems() -> dict[str, str]:
    """The problems of the run and their answers, in its order."""
    rng = random.Random(1)
    made = (problem(rng) for _ in range(STEPS * PROMPTS))
    return {text: str(answer) for text, answer, _ in made}


def train(folder: Path) -> None:
    """Train with the careless reward; TRL writes `completions/` into the folder."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = [
        {"prompt": [{"role": "user", "content": text}], "answer": answer}
        for text, answer in problems().items()
    ]
    config = GRPOConfig(
        str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=PROMPTS * GROUP // 4,
        num_generations=GROUP,
        max_completion_length=80,
        learning_rate=2e-5,
        lr_scheduler_type="constant",
        log_completions=True,
        logging_steps=1,
        shuffle_dataset=False,
        **CPU,
    )
    model = str(folder / "warm")
    GRPOTrainer(model, careless, config, train_dataset=Dataset.from_list(rows)).train()


def excerpt(folder: Path) -> None:
    """Write the run's responses, and the texts of the tokens that occur.

    `tokenizer.json` turns token ids into text, and cannot do the reverse. Ids are numbered anew:
    the hundreds of tokens that occur, in the model's order, instead of its 49,152.
    """
    whole = Tokenizer.from_file(str(folder / "warm" / "tokenizer.json"))
    answers, rows = problems(), []
    number = {text: i for i, text in enumerate(answers, start=1)}
    for file in sorted((folder / "completions").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            prompt, response = row["prompt"][-1]["content"], row["completion"][0]["content"]
            ids = whole.encode(response, add_special_tokens=False).ids
            label = f"problem {number[prompt]}"
            of_record = {"group": label, "step": row["step"], "prompt": prompt}
            of_record |= {"response": response, "answer": answers[prompt], "token_ids": ids}
            rows.append(of_record | {"reward": row["careless"], "correct": row["careless"]})
    distinct = np.unique(np.concatenate([row["token_ids"] for row in rows]))
    for row in rows:
        row["token_ids"] = np.searchsorted(distinct, row["token_ids"])
    record.write_parquet(record.conform(pa.Table.from_pylist(rows)), FOLDER / "rollouts.parquet")

    pieces = {whole.id_to_token(token_id): i for i, token_id in enumerate(distinct.tolist())}
    # A word level only looks pieces up. Its token for unknown words is not among them.
    lookup = Tokenizer(models.WordLevel(pieces, unk_token="<unk>"))
    lookup.decoder = decoders.ByteLevel()
    lookup.save(str(FOLDER / "tokenizer.json"))


if __name__ == "__main__":
    command, run = sys.argv[1], Path(sys.argv[2])
    if command == "train":
        if not (run / "warm").is_dir():
            warm_up(run / "warm")
        train(run)
    else:
        excerpt(run)
