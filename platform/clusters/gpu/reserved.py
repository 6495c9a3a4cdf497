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
_OWN_FOLDER: Final = "/etc/allotment"


def is_reserved_variable(name: str) -> bool:
    """Whether a variable of the environment is the platform's own."""
    return name.startswith(VARIABLES)


def could_be_reserved(prefix: str) -> bool:
    """Whether a variable that begins with `prefix` may be the platform's own, whatever follows."""
    return is_reserved_variable(prefix) or any(name.startswith(prefix) for name in VARIABLES)


def is_reserved_label(name: str) -> bool:
    """Whether a label or an annotation is the platform's or a device plugin's own."""
    return name.startswith(LABELS)


def is_reserved_mount(path: str) -> bool:
    """Whether something mounted here changes which cards are seen, or how much of them, or is ours."""
    own = (*MOUNTS, _OWN_FOLDER)
    # Two slashes at the beginning are kept by the rules of paths, and mean one.
    whole = "/" + posixpath.normpath(path).lstrip("/")
    return f"{whole}/".startswith(tuple(f"{mount}/" for mount in own))
