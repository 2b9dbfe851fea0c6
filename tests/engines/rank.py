"""One process of `test_several_processes.py`, under torchrun: train, keep this rank's rollouts."""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.experiments.demo import sums
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import KeepGradient, tiny_trainer


def main(model: str, output: Path, rows_per_rank: int, group_size: int) -> None:
    batches, keep = [], FirstGradient()
    arguments = tiny_trainer(
        str(output / "out"),
        per_device_train_batch_size=rows_per_rank,
        num_generations=group_size,
        max_completion_length=160,
        max_steps=3,
        ddp_backend="gloo",
    )
    arguments |= {
        "model": AutoModelForCausalLM.from_pretrained(model),
        "processing_class": AutoTokenizer.from_pretrained(model, padding_side="left"),
        "reward_funcs": about_half,
        "train_dataset": Dataset.from_dict(
            {"prompt": [problem.prompt for problem in sums.train_problems(64, seed=0)]}
        ),
    }
    trainer = KTAETrainer(**arguments, on_rollouts=batches.append, callbacks=[keep])
    trainer.train()
    if trainer.accelerator.is_main_process:
        torch.save(keep.gradient, output / "gradient.pt")
    keep = [batch._replace(inputs=[row["prompt"] for row in batch.inputs]) for batch in batches]
    torch.save(
        [batch._asdict() for batch in keep], output / f"rank{trainer.accelerator.process_index}.pt"
    )


class FirstGradient(KeepGradient):
    """Of the step in which the policy is the one that was loaded."""

    def on_pre_optimizer_step(self, *args, **kwargs):
        if self.gradient is None:
            super().on_pre_optimizer_step(*args, **kwargs)


def about_half(completion_ids, **_):
    """A verdict that differs within groups; None, unknown, now and then."""
    return [None if sum(ids) % 7 == 0 else float(sum(ids) % 2) for ids in completion_ids]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
