"""A tiny policy that TRL trains with vLLM in the same process, and what each of its steps showed.

At each step the gradient is compared with one computed from what vLLM returned. A step whose
weights are not handed to vLLM is the control. vLLM cannot be ended, so each training is a process:
`python vllm_run.py FOLDER CREDIT SYNCED`, the last two in JSON.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from copied import copy_of
from transformers import AutoModelForCausalLM, TrainerCallback

from ktae.experiments.demo.model import CONTEXT, SIZE, make_model
from ktae.trainers.trl.gradient_check import (
    WEIGHTS,
    expected_gradient,
    flat_gradient,
    naive_advantages,
    relative_error,
    tiny_trainer,
)
from ktae.trainers.trl.trainer import KTAETrainer

CLIP = 1.05
"""Upper bound of the importance ratios (TRL's default is 3): so low that some are cut off."""

LOSS = "dapo"
DIFFERENCE = "sampling/sampling_logp_difference/max"
"""TRL's own metric: the largest difference between log-probabilities of vLLM and of the policy."""

ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; vLLM would take most of the memory
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else it keeps cores for itself
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def train_apart(folder, credit, synced):
    """What each step showed, in a process of its own; `synced` says whether vLLM gets the weights
    before it."""
    program = [sys.executable, __file__, str(folder), json.dumps(credit), json.dumps(synced)]
    # One GPU: on several, TRL would split the batch over them.
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    environment = ENVIRONMENT | os.environ | {"CUDA_VISIBLE_DEVICES": gpu}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=1200)
    steps = folder / "steps.json"
    assert steps.exists(), done.stderr[-2000:]  # vLLM may fail while it ends, when all is done
    return json.loads(steps.read_text("utf-8"))


def train(folder, credit, synced):
    """The same in this process."""
    import trl.generation.vllm_generation as generation

    # Left alone, vLLM turns float32 into bfloat16.
    generation.LLM = functools.partial(generation.LLM, dtype="float32", enforce_eager=True)
    if not torch.cuda.is_available():
        keep_weights_unpacked()
    # vLLM's attention on a CPU knows heads of 32 and more; the demo's have 16.
    SIZE["heads"] = SIZE["hidden_size"] // 32
    arguments = tiny_trainer(
        str(folder / "run"),
        use_cpu=not torch.cuda.is_available(),
        max_steps=len(synced),
        logging_steps=1,
        loss_type=LOSS,
        use_vllm=True,
        vllm_max_model_length=CONTEXT,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=CLIP,
    )
    make_model(seed=0).save_pretrained(folder / "model")
    arguments["processing_class"].save_pretrained(folder / "model")
    arguments["model"] = AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.float32, trust_remote_code=False
    )
    witness = Witness(synced)
    own = {"callbacks": [witness], "on_rollouts": witness.compare}
    trainer = KTAETrainer(**arguments, credit=credit, **own)
    witness.watch(trainer)
    trainer.train()
    logged = [line[DIFFERENCE] for line in trainer.state.log_history if DIFFERENCE in line]
    return [
        step | {"logp_difference": difference}
        for step, difference in zip(witness.steps, logged, strict=True)
    ]


def keep_weights_unpacked():
    """On a CPU vLLM's linear layers pack their weights and leave empty parameters behind, and TRL's
    first hand-over ends with "'Parameter' object has no attribute 'weight_loader'"."""
    import vllm.model_executor.layers.utils as layers

    def keep(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = keep


class Witness(TrainerCallback):
    """Sees what vLLM returned, and compares each step's gradient with the one expected of it."""

    def __init__(self, synced):
        self.synced = synced
        self.steps = []

    def watch(self, trainer):
        """Keep what vLLM returns, and leave out the syncs that are not wanted."""
        self.trainer = trainer
        engine = trainer.vllm_generation
        generate, sync = engine.generate, engine.sync_weights

        def watched(*args, **kwargs):
            self._sampled = generate(*args, **kwargs)
            return self._sampled

        def sync_if_wanted():
            if self.synced[trainer.state.global_step]:
                sync()

        engine.generate, engine.sync_weights = watched, sync_if_wanted

    def compare(self, batch):
        """When the rollouts are there: what gradient is expected of them?"""
        _, ids, log_probs, _ = self._sampled
        sampled = [torch.tensor([top[0] for top in tokens]) for tokens in log_probs]
        of_vllm = batch._replace(
            token_ids=[list(tokens) for tokens in ids],
            rewards=batch.rewards.cpu(),
            advantages=batch.advantages.cpu(),
        )
        ratios = []

        def correction(row, now):
            ratios.append(torch.exp(now - sampled[row]))
            return ratios[-1].clamp(max=CLIP)

        policy = copy_of(self.trainer.model)
        tokenizer, weight_of = self.trainer.processing_class, WEIGHTS[LOSS]
        gradient = functools.partial(
            expected_gradient, policy, tokenizer, of_vllm, weight_of=weight_of
        )
        credited = torch.from_numpy(naive_advantages(of_vllm))
        plain = of_vllm.advantages.unsqueeze(1).expand_as(credited)
        advantages = plain if self.trainer.credit is None else credited
        self._expected = {
            "gradient_error": gradient(advantages, correction=correction),
            "without_credit": gradient(plain, correction=correction),
            "without_correction": gradient(advantages),
        }
        self.steps.append(
            {
                "same_tokens": of_vllm.token_ids == batch.token_ids,
                "highest_ratio": max(float(ratio.max()) for ratio in ratios),
            }
        )

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        """When the gradient is there."""
        gradient = flat_gradient(model).cpu()
        for name, expected in self._expected.items():
            self.steps[-1][name] = relative_error(gradient, expected)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    STEPS = train(FOLDER, json.loads(sys.argv[2]), json.loads(sys.argv[3]))
    (FOLDER / "steps.json").write_text(json.dumps(STEPS), "utf-8")
