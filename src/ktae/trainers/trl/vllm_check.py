"""Proof that vLLM samples from the policy that TRL trains, and that credit stays at its tokens.

TRL trains a tiny policy for some steps, with vLLM in the same process. At each step the gradient is
compared with one computed from what vLLM returned: its token ids and its log-probabilities. A step
whose weights are not handed to vLLM is the control: the log-probabilities must differ there, and
TRL's importance-sampling correction has something to correct.

vLLM reads its settings from the environment when it is imported, and cannot be ended. So each check
is a process of its own: `check_apart` starts `python -m ktae.trainers.trl.vllm_check`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, TrainerCallback

from ktae.demo import SUMS
from ktae.demo.model import CONTEXT, make_model
from ktae.trainers.trl.gradient_check import (
    WEIGHTS,
    copy_of,
    expected_gradient,
    flat_gradient,
    naive_advantages,
    relative_error,
    tiny_trainer,
)
from ktae.trainers.trl.trainer import KTAETrainer, RolloutBatch

BOUND = 1e-4
"""Of differences of log-probabilities, and of relative errors of gradients; all is in float32."""

CLIP = 1.05
"""Upper bound of the importance ratios (TRL's default is 3): so low that some are cut off."""

LOSS = "dapo"

LONGEST = 1200
"""Seconds that a check may take: a vLLM that hangs says nothing."""

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


class Step(NamedTuple):
    """What one training step showed."""

    synced: bool
    """The policy's weights were handed to vLLM before it sampled."""
    same_tokens: bool
    """The rollouts of the trainer are the token ids that vLLM returned, in their order."""
    logp_difference: float
    """Largest of all sampled tokens, as TRL logs it."""
    weights_difference: float
    """Largest between a weight in vLLM and in the policy, when vLLM had sampled."""
    weights_moved: float
    """Largest between a weight in vLLM now and at the first step."""
    lowest_ratio: float
    """Importance ratio π(token) / π_vLLM(token) before it is cut off."""
    highest_ratio: float
    gradient_error: float
    """Relative, of the step's gradient to the one expected."""
    without_credit: float
    """The same to the gradient of rollout advantages alone: what the check can tell."""
    without_correction: float
    """The same to the gradient with all importance ratios 1."""


def check_apart(credit: str | None, synced: Sequence[bool]) -> list[Step]:
    """Train as many steps as `synced` has, in a process of its own; `synced` says for each whether
    vLLM gets the weights before. `credit` is an estimator's preset, or None for plain GRPO.

    Raises:
        RuntimeError: the process failed; with the last line that it wrote.
        TimeoutExpired: it took longer than `LONGEST`.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "steps.json")
        told = json.dumps({"folder": folder, "credit": credit, "synced": list(synced)})
        done = subprocess.run(
            [sys.executable, "-m", __name__, told],
            env=_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST,
        )
        if not out.exists():  # vLLM may fail while it ends, when all is done
            lines = done.stderr.strip().splitlines() or ["it wrote nothing"]
            raise RuntimeError(f"exit status {done.returncode}: {lines[-1][:300]}")
        return [Step(**step) for step in json.loads(out.read_text("utf-8"))]


def _environment() -> dict[str, str]:
    """The user's own settings first. One GPU: on several, TRL would split the batch over them."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return ENVIRONMENT | os.environ | {"CUDA_VISIBLE_DEVICES": gpu}


def check(folder: Path, credit: str | None, synced: Sequence[bool]) -> list[Step]:
    """The same in this process."""
    prepare_vllm()
    language = dataclasses.replace(
        # vLLM's attention on a CPU knows heads of 32 and more; the demo's have 16.
        SUMS,
        size=dataclasses.replace(SUMS.size, heads=SUMS.size.hidden_size // 32),
    )
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
    make_model(language, seed=0).save_pretrained(folder / "model")
    arguments["processing_class"].save_pretrained(folder / "model")
    arguments["model"] = AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.float32, trust_remote_code=False
    )
    witness = Witness(synced)
    trainer = KTAETrainer(
        **arguments, credit=credit, callbacks=[witness], on_rollouts=witness.compare
    )
    witness.watch(trainer)
    trainer.train()
    logged = [line[DIFFERENCE] for line in trainer.state.log_history if DIFFERENCE in line]
    return [
        Step(**step, logp_difference=difference)
        for step, difference in zip(witness.steps, logged, strict=True)
    ]


def prepare_vllm() -> None:
    """Let TRL start vLLM in float32 and uncompiled, and on a CPU with weights that can be replaced.

    For checks on tiny models only. Left alone, vLLM turns float32 into bfloat16.
    """
    import trl.generation.vllm_generation as generation

    generation.LLM = functools.partial(generation.LLM, dtype="float32", enforce_eager=True)
    if torch.cuda.is_available():
        return
    # On a CPU vLLM's linear layers pack their weights and leave empty parameters behind, and TRL's
    # first hand-over ends with "'Parameter' object has no attribute 'weight_loader'".
    import vllm.model_executor.layers.utils as layers

    def keep_weights(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = keep_weights


class Witness(TrainerCallback):
    """Sees what vLLM returned, and compares each step's gradient with the one expected of it."""

    def __init__(self, synced: Sequence[bool]) -> None:
        self.synced = synced
        self.steps: list[dict[str, Any]] = []
        self._expected: tuple[torch.Tensor, ...] = ()
        self._first_weights: dict[str, torch.Tensor] = {}

    def watch(self, trainer: KTAETrainer) -> None:
        """Keep what vLLM returns, and leave out the syncs that are not wanted."""
        self.trainer = trainer
        engine = trainer.vllm_generation
        generate, sync = engine.generate, engine.sync_weights

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._sampled = generate(*args, **kwargs)
            return self._sampled

        def sync_if_wanted() -> None:
            if self.synced[trainer.state.global_step]:
                sync()

        engine.generate, engine.sync_weights = watched, sync_if_wanted

    def compare(self, batch: RolloutBatch) -> None:
        """When the rollouts are there: what gradient is expected of them?"""
        _, ids, log_probs, _ = self._sampled
        sampled = [torch.tensor([top[0] for top in tokens]) for tokens in log_probs]
        own = batch._replace(
            token_ids=[list(tokens) for tokens in ids],
            rewards=batch.rewards.cpu(),
            advantages=batch.advantages.cpu(),
        )
        ratios: list[torch.Tensor] = []

        def correction(row: int, now: torch.Tensor) -> torch.Tensor:
            ratios.append(torch.exp(now - sampled[row]))
            return ratios[-1].clamp(max=CLIP)

        policy = copy_of(self.trainer.model)
        gradient = functools.partial(
            expected_gradient, policy, self.trainer.processing_class, own,
            weight_of=WEIGHTS[LOSS],
        )  # fmt: skip
        credited = torch.from_numpy(naive_advantages(own))
        plain = own.advantages.unsqueeze(1).expand_as(credited)
        used = plain if self.trainer.credit is None else credited
        self._expected = (
            gradient(used, correction=correction),
            gradient(plain, correction=correction),
            gradient(used),
        )
        weights = dict(self._weights_in_vllm())
        self._first_weights = self._first_weights or weights
        self.steps.append(
            {
                "synced": self.synced[self.trainer.state.global_step],
                "same_tokens": own.token_ids == batch.token_ids,
                "weights_difference": _largest(weights, dict(packed(policy.named_parameters()))),
                "weights_moved": _largest(weights, self._first_weights),
                "lowest_ratio": min(float(ratio.min()) for ratio in ratios),
                "highest_ratio": max(float(ratio.max()) for ratio in ratios),
            }
        )

    def _weights_in_vllm(self) -> Iterable[tuple[str, torch.Tensor]]:
        """By the way that TRL itself takes to hand them over."""
        executor = self.trainer.vllm_generation.llm.llm_engine.model_executor
        for name, weight in executor.driver_worker.model_runner.model.named_parameters():
            yield name, weight.detach().cpu().clone()

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        """When the gradient is there."""
        names = ("gradient_error", "without_credit", "without_correction")
        found = flat_gradient(model).cpu()
        errors = [relative_error(found, expected) for expected in self._expected]
        self.steps[-1] |= dict(zip(names, errors, strict=True))


PACKED = {"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj"}
PACKED |= {"gate_proj": "gate_up_proj", "up_proj": "gate_up_proj"}
"""Layers of a Llama that vLLM has as one, in the order in which their rows follow."""


def packed(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterable[tuple[str, torch.Tensor]]:
    """A Llama's weights by vLLM's names."""
    parts: dict[str, list[torch.Tensor]] = {}
    for name, weight in weights:
        layer = name.split(".")[-2]
        parts.setdefault(name.replace(layer, PACKED.get(layer, layer)), []).append(weight.detach())
    return ((name, torch.cat(weights)) for name, weights in parts.items())


def _largest(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Difference of two sets of weights; vLLM pads its vocabulary with rows of its own.

    Raises:
        RuntimeError: they are not weights of the same names.
    """
    if found.keys() != expected.keys():
        raise RuntimeError(f"vLLM has other weights: {sorted(found.keys() ^ expected.keys())}")
    return max(float((found[name][: len(w)] - w).abs().max()) for name, w in expected.items())


if __name__ == "__main__":
    _told = json.loads(sys.argv[1])
    _folder = Path(_told["folder"])
    _steps = check(_folder, _told["credit"], _told["synced"])
    (_folder / "steps.json").write_text(json.dumps([step._asdict() for step in _steps]), "utf-8")
