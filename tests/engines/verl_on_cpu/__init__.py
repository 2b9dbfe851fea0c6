"""Test equipment: what verl lacks to train on a CPU, through verl's own registries.

Loaded in every Ray process by `VERL_USE_EXTERNAL_MODULES=verl_on_cpu`, with `VERL_PLATFORM=cpu`.
"""

import os
import tempfile

from wrapt import when_imported


def _add_platform(manager):
    from verl_on_cpu.platform import CPUPlatform

    manager.PlatformRegistry.register("cpu")(CPUPlatform)


def _use_gloo(distributed):
    start = distributed.initialize_global_process_group_ray

    def start_with_gloo(timeout_second=None, backend=None):
        # They meet at a file: the free port that verl chose seconds ago may be taken by now. Its
        # name is of what all ranks share, on whichever node they are: the cluster and the job.
        import ray

        own = ray.get_runtime_context()
        name = f"ktae-{own.get_session_name()}-{own.get_job_id()}-{os.environ['MASTER_PORT']}"
        os.environ["DIST_INIT_METHOD"] = f"file://{os.path.join(tempfile.gettempdir(), name)}"
        start(timeout_second=timeout_second, backend="cpu:gloo")

    distributed.initialize_global_process_group_ray = start_with_gloo


def _add_engine(module):
    from verl_on_cpu.engine import make_engine

    module.EngineRegistry.register("language_model", ["fsdp", "fsdp2"], device="cpu")(
        make_engine(module.FSDPEngineWithLMHead)
    )


def _add_rollout(base):
    base._ROLLOUT_REGISTRY["generate", "async"] = "verl_on_cpu.rollout.ServerAdapter"


def _add_replica(replica):
    def load():
        from verl_on_cpu.rollout import GenerateReplica

        return GenerateReplica

    replica.RolloutReplicaRegistry.register("generate", load)


when_imported("verl.plugin.platform.platform_manager")(_add_platform)
when_imported("verl.utils.distributed")(_use_gloo)
when_imported("verl.workers.engine.fsdp.transformer_impl")(_add_engine)
when_imported("verl.workers.rollout.base")(_add_rollout)
when_imported("verl.workers.rollout.replica")(_add_replica)
