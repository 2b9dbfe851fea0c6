"""Proof that each token's credit reaches TRL's loss at that token, on the installation at hand.

The gradient of a real training step is compared with one computed from the rollouts alone: the
naive backend's credit, the policy's log-probabilities, and the loss's own averaging. On the first
step the policy is the one that sampled, so every ratio is 1, nothing is clipped, and the gradient
of each of these losses is -Σ w A ∇log π with a weight w that depends on lengths only.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig

from ktae.batch import make_batch
from ktae.counting import naive
from ktae.estimators import KTAE
from ktae.padding import pad
from ktae.trainers.trl.trainer import KTAETrainer, RolloutBatch

MAX_LENGTH = 12
GROUP_SIZE = 4
WORDS = [f"w{n}" for n in range(62)]

Weights = Callable[[torch.Tensor], torch.Tensor]
WEIGHTS: dict[str, Weights] = {
    **dict.fromkeys(("grpo", "sapo"), lambda n: 1 / n / len(n)),
    **dict.fromkeys(("bnpo", "dapo", "cispo", "vespo"), lambda n: n * 0 + 1 / float(n.sum())),
    "dr_grpo": lambda n: n * 0 + 1 / (len(n) * MAX_LENGTH),
    "luspo": lambda n: n * 0 + 1 / len(n),
}
"""What each loss type multiplies a rollout's token losses by, from the (n,) lengths."""

Correction = Callable[[int, torch.Tensor], torch.Tensor]
"""From a rollout's row and its (T,) log-probabilities to what its tokens' losses are multiplied by,
where something else than the policy sampled them: (T,), or (1,) for the whole rollout."""


def gradient_error(loss_type: str, **settings: Any) -> float:
    """Relative error of a training step's gradient, of a tiny untrained model on one process.

    `settings` are those of the `GRPOConfig`, such as `use_cpu=False` to train on a GPU. The
    expected gradient is computed on the CPU in float32. A step that cannot tell token advantages
    from rollout advantages, or one loss's averaging from another's, is an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = tiny_trainer(folder, loss_type=loss_type, **settings)
        batch, policy, gradient = train_one_step(arguments, credit="paper")
    if len(set(map(len, batch.token_ids))) == 1:
        raise RuntimeError("in this step all rollouts are equally long: losses weigh them alike")
    of_tokens = torch.from_numpy(naive_advantages(batch))
    of_rollouts = batch.advantages.cpu().unsqueeze(1).expand_as(of_tokens)
    expected, other = (
        expected_gradient(policy, arguments["processing_class"], batch, x, WEIGHTS[loss_type])
        for x in (of_tokens, of_rollouts)
    )
    if relative_error(expected, other) < 0.05:
        raise RuntimeError("in this step token advantages and rollout advantages come to the same")
    return relative_error(gradient, expected)


def even_start(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """1 where the first token's id is even: about half of an untrained model's rollouts."""
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def tiny_trainer(output: str, **settings: Any) -> dict[str, Any]:
    """A trainer's arguments for one step of a tiny policy; `settings` are the `GRPOConfig`'s."""
    defaults = {
        "output_dir": output,
        "per_device_train_batch_size": 4 * GROUP_SIZE,
        "num_generations": GROUP_SIZE,
        "max_completion_length": MAX_LENGTH,
        "max_steps": 1,
        "seed": 2,  # rollouts of different lengths: of one length, many losses weigh alike
        "learning_rate": 1e-3,
        "max_grad_norm": 1e9,  # no clipping: gradients are compared
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
    }
    if settings.get("loss_type") == "cispo":
        defaults["epsilon_high"] = 5.0  # it clips the weights themselves
    model, tokenizer = tiny_policy()
    rng = np.random.default_rng(2)
    prompts = [" ".join(rng.choice(WORDS, size=6)) for _ in range(64)]
    return {
        "model": model,
        "processing_class": tokenizer,
        "reward_funcs": even_start,
        "args": GRPOConfig(**(defaults | settings)),
        "train_dataset": Dataset.from_dict({"prompt": prompts}),
    }


def tiny_policy() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """An untrained model of 90,000 parameters, always the same, and a tokenizer of 64 words."""
    words = {word: i for i, word in enumerate(["<pad>", "<eos>", *WORDS])}
    by_word = Tokenizer(models.WordLevel(words))
    by_word.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=by_word, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=160,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.07,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return LlamaForCausalLM(config), tokenizer


def train_one_step(
    arguments: dict[str, Any], **ktae_arguments: Any
) -> tuple[RolloutBatch, Any, torch.Tensor]:
    """The rollouts, a copy of the policy that sampled them, and the first step's gradient."""
    batches: list[RolloutBatch] = []
    keep = KeepGradient()
    before = copy.deepcopy(arguments["model"])
    more: dict[str, Any] = {"callbacks": [keep], "on_rollouts": batches.append} | ktae_arguments
    KTAETrainer(**arguments, **more).train()
    if keep.gradient is None:
        raise RuntimeError("the trainer took no optimizer step")
    return batches[0], before, keep.gradient


class KeepGradient(TrainerCallback):
    """Keeps the gradient of the last optimizer step, as one vector."""

    gradient: torch.Tensor | None = None

    def on_pre_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
        """Called by the trainer when all gradients are there."""
        self.gradient = flat_gradient(model)


def flat_gradient(model: Any) -> torch.Tensor:
    """Those of all parameters that have one, as one vector on the CPU."""
    grads = [p.grad.float().flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(grads).cpu()


def expected_gradient(
    model: Any,
    tokenizer: Any,
    batch: RolloutBatch,
    advantages: torch.Tensor,
    weight_of: Weights,
    rows: Sequence[int] | None = None,
    correction: Correction | None = None,
) -> torch.Tensor:
    """-Σ_i w_i Σ_t c_it A_it ∇log π(token_it) of these rows, unpadded; `correction` gives c."""
    model.zero_grad()
    rows = range(len(batch.token_ids)) if rows is None else rows
    lengths = [float(len(batch.token_ids[row])) for row in rows]
    weights = dict(zip(rows, weight_of(torch.tensor(lengths)), strict=True))
    for row in rows:
        fields, ids = batch.inputs[row], batch.token_ids[row]
        prompt = tokenizer(fields["prompt"])["input_ids"]
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        log_probs = logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        factor = advantages[row, : len(ids)]
        if correction is not None:
            factor = factor * correction(row, log_probs.detach())
        (-weights[row] * (factor * log_probs).sum()).backward()
    return flat_gradient(model)


def naive_advantages(batch: RolloutBatch, correct: Sequence[float] | None = None) -> np.ndarray:
    """(n, T) of the preset `paper` by the reference, on TRL's rollout advantages."""
    ids, mask = pad(batch.token_ids)
    correct = even_start(batch.token_ids) if correct is None else correct
    arrays = make_batch(ids, mask, np.array(correct), np.arange(len(ids)) // GROUP_SIZE)
    base: np.ndarray = batch.advantages.cpu().numpy()[:, None] * mask
    advantages: np.ndarray = base + KTAE().by_units().credit(arrays, naive.credit)
    return advantages.astype(np.float32)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative difference in the Euclidean norm."""
    return float((found - expected).norm() / expected.norm())
