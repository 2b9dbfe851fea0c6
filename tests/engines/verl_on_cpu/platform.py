"""A platform of logical devices: Ray counts them as GPUs, the work is done on the CPU."""

import contextlib
import types

import torch
from verl.plugin.platform.platform_base import PlatformBase


def _nothing(*_args, **_kwargs):
    return None


def _zero(*_args, **_kwargs):
    return 0


DEVICE_MODULE = types.SimpleNamespace(
    **dict.fromkeys(("empty_cache", "synchronize", "set_device", "manual_seed_all"), _nothing),
    **dict.fromkeys(
        ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"),
        _zero,
    ),
    is_available=lambda: False,
    device_count=lambda: 1,
    current_device=lambda: "cpu",
    get_device_name=lambda: "cpu",
    mem_get_info=lambda: (0, 0),
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
    manual_seed=torch.manual_seed,
)
"""What verl uses of a module like `torch.cuda`."""


class CPUPlatform(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = DEVICE_MODULE

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"  # verl passes it to Tensor.to(), where a number would mean a GPU

    def device_count(self):
        return 1

    set_device = synchronize = set_allocator_settings = empty_cache = _nothing
    manual_seed_all = profiler_start = profiler_stop = cudart = _nothing

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg):
        yield

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        return False
