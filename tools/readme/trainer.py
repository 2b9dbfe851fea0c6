# What a GRPO script has before it makes its trainer: rewards, settings and a data set.
from datasets import Dataset
from trl import GRPOConfig

from ktae.demo import SUMS

problems = SUMS.train_problems(16, 0)
dataset = Dataset.from_dict(
    {"prompt": [p.prompt for p in problems], "answer": [str(p.answer) for p in problems]}
)


def accuracy(completions, answer, **_):
    return [
        float(str(SUMS.extract_answer(c)) == a) for c, a in zip(completions, answer, strict=True)
    ]


def overlong_penalty(completion_ids, **_):
    return [-0.1 * (len(ids) > 32) for ids in completion_ids]


args = GRPOConfig("trl", per_device_train_batch_size=8, num_generations=4, use_cpu=True)
