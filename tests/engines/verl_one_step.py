"""Stock verl on the CPU: its settings, and one step of the demo as `ktae doctor` takes it.

python tests/engines/verl_one_step.py FOLDER   # the run folder is FOLDER/run
"""

import os
import subprocess
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).parent

ON_THE_CPU = {
    "trainer": {"device": "cpu", "val_before_train": False},
    "data": {"dataloader_num_workers": 0},
    "actor_rollout_ref": {
        "model": {"use_remove_padding": False, "enable_gradient_checkpointing": False},
        "actor": {
            "fsdp_config": {"dtype": "float32", "use_torch_compile": False},
            "use_torch_compile": False,
        },
        "rollout": {"free_cache_engine": False, "load_format": "auto", "agent": {"num_workers": 1}},
    },
    "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
}

OWN_CLUSTER = {
    "ray_kwargs.ray_init.num_cpus": 8,
    "+ray_kwargs": {
        "ray_init": {"address": "local", "num_gpus": 1, "include_dashboard": False},
        "ray_init.object_store_memory": 200_000_000,
    },
}
"""A node that the run starts for itself."""


def recipe(model, name, *, algorithm=None, overrides=None, prompts=4, nodes=1):
    """Two steps of eight rollouts a prompt; several nodes are those of a cluster that is up."""
    cluster = {} if nodes > 1 else OWN_CLUSTER
    return {
        "name": name,
        "steps": 2,
        "model": {"path": str(model)},
        "rollout": {
            "prompts_per_step": prompts,
            "group_size": 8,
            "max_response_length": 64,
            "max_prompt_length": 64,
        },
        "algorithm": {"minibatches": 1} | (algorithm or {}),
        "credit": "paper",
        "optimizer": {"learning_rate": 4e-4},
        "logging": {"save_every": 1, "eval_problems": 8},
        "verl": {
            "rollout_engine": "generate",
            "nodes": nodes,
            "gpus_per_node": 1,
            "validate_every": 2,
            "tokens_per_gpu": 2048,
            "overrides": ON_THE_CPU | cluster | (overrides or {}),
        },
    }


def environment(record):
    """What verl and Ray need on the CPU, and where updates are recorded, if they are."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
        "VERL_PLATFORM": "cpu",
        "KTAE_TEST_RECORD": str(record or ""),
        # Ray would start a process for each of its CPUs, before anyone asks for one.
        "RAY_prestart_worker_first_driver": "0",
        # On a machine that has much else to do, Ray takes longer to start than it waits.
        "RAY_raylet_start_wait_time_s": "180",
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    content = recipe("demo", "one-step") | {"steps": 1}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    command = [sys.executable, "-m", "ktae", "train", folder / "recipe.yaml", "--engine", "verl"]
    done = subprocess.run([*command, "--output", folder / "run"], env=environment(None))
    sys.exit(done.returncode)
