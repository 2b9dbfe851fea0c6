"""Training and evaluation use one grader: the same texts, the same verdicts."""

import numpy as np
import pytest
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

pytest.importorskip("math_verify", reason="needs the extra 'eval'")

from ktae.cli.eval import grade_outputs
from ktae.cli.printing import Screen
from ktae.evaluation.outputs import Output
from ktae.grading import GradingPool, Outcome, accuracy
from ktae.trainers.trl import KTAETrainer

WORDS = ["<eos>", "what?", "so", "Answer:", "\n", *(rf"\boxed{{{i}}}" for i in range(6)), "7"]
ACCEPTED = [["0", "1", "2"], [r"\frac{1}{"]]
"""Of the even and of the odd prompts; the second does not parse."""


@pytest.fixture
def trainer(trainer_arguments):
    """A random policy over boxes, rewarded by the grader."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    rows = [{"prompt": "what?", "answer": ACCEPTED[i % 2]} for i in range(8)]
    changed = {
        "model": LlamaForCausalLM(config),
        "processing_class": PreTrainedTokenizerFast(
            tokenizer_object=words, eos_token="<eos>", pad_token="<eos>"
        ),
        "reward_funcs": accuracy,
        "train_dataset": Dataset.from_list(rows),
    }
    batches = []
    arguments = trainer_arguments(max_completion_length=3) | changed
    return KTAETrainer(**arguments, on_rollouts=batches.append), batches


def test_the_reward_in_training_is_the_verdict_of_evaluation(trainer, monkeypatch):
    seen = []

    def spy(completions, answer, **more):
        rewards = accuracy(completions, answer, **more)
        seen.extend(zip(completions, answer, rewards, strict=True))
        return rewards

    trainer, batches = trainer
    monkeypatch.setattr(trainer, "reward_funcs", [spy])
    trainer.train()
    outputs = [Output("x", str(i), 0, text, tuple(a)) for i, (text, a, _) in enumerate(seen)]
    with GradingPool(1) as pool:
        verdicts = grade_outputs(Screen(), pool, outputs)
    assert [reward for *_, reward in seen] == [verdict.correct for verdict in verdicts]
    outcomes = {verdict.outcome for verdict in verdicts}
    assert outcomes >= {Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNDECIDED}
    expected = [np.nan if verdict.correct is None else verdict.correct for verdict in verdicts]
    np.testing.assert_array_equal(batches[0].correct, expected)
