"""What a workload may not set for itself: by each of these it would reach more of a card than was granted.

The same names stand in `deploy/kubernetes/admission.yaml`, for pods that the platform does not make.
"""

from __future__ import annotations

import posixpath
from typing import Final

VARIABLES: Final = (
    "NVIDIA_",  # which cards the container runtime shows
    "CUDA_DEVICE_",  # HAMi's limits, and its switch below
    "CUDA_DISABLE_CONTROL",
    "CUDA_TASK_PRIORITY",
    "GPU_CORE_",
    "LD_PRELOAD",  # comes before the library that enforces the limits
)
LABELS: Final = ("allotment.io/", "hami.io/", "nvidia.com/", "app.kubernetes.io/managed-by")
MOUNTS: Final = (
    "/var/run/nvidia-container-devices",  # asks the container runtime for cards by the name of a file
    "/usr/local/vgpu",
    "/etc/ld.so.preload",
)


def is_reserved_variable(name: str) -> bool:
    """Whether a variable of the environment is the platform's own."""
    return name.startswith(VARIABLES)


def is_reserved_label(name: str) -> bool:
    """Whether a label or an annotation is the platform's or a device plugin's own."""
    return name.startswith(LABELS)


def is_reserved_mount(path: str) -> bool:
    """Whether something mounted here would change which cards, or how much of them, are seen."""
    return f"{posixpath.normpath(path)}/".startswith(tuple(f"{mount}/" for mount in MOUNTS))
