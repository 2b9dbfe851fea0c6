"""A tiny policy, prompts and a reward, for tests of the real TRL trainer."""

import pytest

pytest.importorskip("trl", reason="needs the extra 'trl'")

from datasets import Dataset
from trl import GRPOConfig

from ktae.demo import train_problems
from ktae.demo.model import make_model, make_tokenizer


def even_start(completion_ids, **_):
    """1 where the first token's id is even: about half of an untrained model's rollouts."""
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


@pytest.fixture
def trainer_arguments(tmp_path):
    """Keyword arguments of a trainer on one CPU process; `config` entries replace the defaults."""

    def make(**config):
        defaults = {
            "output_dir": str(tmp_path / "out"),
            "per_device_train_batch_size": 16,
            "num_generations": 4,
            "max_completion_length": 12,
            "max_steps": 1,
            "learning_rate": 1e-3,
            "max_grad_norm": 1e9,  # no clipping: gradients are compared
            "report_to": "none",
            "save_strategy": "no",
            "disable_tqdm": True,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
        }
        prompts = [problem.prompt for problem in train_problems(64, seed=0)]
        return {
            "model": make_model(seed=0),
            "processing_class": make_tokenizer(),
            "reward_funcs": even_start,
            "args": GRPOConfig(**(defaults | config)),
            "train_dataset": Dataset.from_dict({"prompt": prompts}),
        }

    return make
