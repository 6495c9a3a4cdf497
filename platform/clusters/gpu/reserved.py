"""Settings that a workload may not choose: each would give it more of a card than was allocated.

Whole classes of variables are refused, with single named exceptions: variables that the next version of a
runtime or of HAMi's library reads are then refused before they are known. The same names are in
`deploy/kubernetes/admission.yaml`, for pods that the platform does not make; a test compares the two.
"""

from __future__ import annotations

import posixpath
from typing import Final

from clusters.gpu.nvidia import PREFIX

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES: Final = "void"
"""The value of `NVIDIA_VISIBLE_DEVICES` with which the runtime adds no device and no driver to any image."""

VARIABLES: Final = (
    "NVIDIA_",  # the cards and channels between cards that the container runtime adds
    "CUDA_",  # HAMi's limits, those of MPS, and CUDA_VERSION, by which an old image gets every card
    "GPU_CORE_",  # whether HAMi limits compute
    "LIBCUDA_",
    "ACTIVE_OOM_KILLER",
    "LD_",  # libraries loaded before the one that enforces the limits
    "GLIBC_TUNABLES",  # the same through the loader
)
ALLOWED: Final = frozenset(
    {
        # They restrict what a process uses, or set how it compiles, loads, caches and reports.
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS"),
        *("CUDA_DEVICE_MAX_COPY_CONNECTIONS", "CUDA_DEVICE_WAITS_ON_EXCEPTION"),
        *("CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_MODULE_DATA_LOADING"),
        *("CUDA_CACHE_DISABLE", "CUDA_CACHE_MAXSIZE", "CUDA_CACHE_PATH"),
        *("CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT", "CUDA_DISABLE_JIT"),
        *("CUDA_MANAGED_FORCE_DEVICE_ALLOC", "CUDA_SCALE_LAUNCH_QUEUES", "CUDA_LOG_FILE"),
        *("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "CUDA_COREDUMP_FILE"),
        *("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"),
        "LD_LIBRARY_PATH",  # searched after the library that enforces the limits has been loaded
    }
)
LABELS: Final = ("allotment.io/", "hami.io/", PREFIX, "app.kubernetes.io/managed-by")
MOUNTS: Final = (
    "/var/run/nvidia-container-devices",  # requests cards from the container runtime by the name of a file
    "/run/nvidia-container-devices",
    "/usr/local/vgpu",
    "/etc/ld.so.preload",
    "/overrideEnv",  # early versions of HAMi's library read their limits from it
)
_OWN_FOLDER: Final = "/etc/allotment"


def is_reserved_variable(name: str) -> bool:
    """Return whether an environment variable is reserved for the platform."""
    return name.startswith(VARIABLES) and name not in ALLOWED


def could_be_reserved(prefix: str) -> bool:
    """Return whether a variable that begins with `prefix` may be reserved, whatever follows."""
    return prefix.startswith(VARIABLES) or any(name.startswith(prefix) for name in VARIABLES)


def is_reserved_label(name: str) -> bool:
    """Return whether a label or an annotation is reserved for the platform or a device plugin."""
    return name.startswith(LABELS)


def plain_path(path: str) -> str:
    """Return an absolute path without empty parts, `.` and `..`, as the container runtime resolves it."""
    # Two slashes at the beginning are kept by the rules of paths, and mean one.
    return "/" + posixpath.normpath(path).lstrip("/")


def is_reserved_mount(path: str) -> bool:
    """Return whether a mount here is reserved, or changes which cards are visible or their limits."""
    own = (*MOUNTS, _OWN_FOLDER)
    return f"{plain_path(path)}/".startswith(tuple(f"{mount}/" for mount in own))
