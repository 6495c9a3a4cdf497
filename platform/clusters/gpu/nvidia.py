"""Names of NVIDIA's cards in Kubernetes: extended resources, node labels and the taint of GPU nodes.

Sources: NVIDIA's device plug-in (resources), its GPU feature discovery (labels), and HAMi for parts of a
card, whose annotations are in `hami`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VENDOR: Final = "NVIDIA"
PREFIX: Final = "nvidia.com/"

CARD_RESOURCE: Final = f"{PREFIX}gpu"
MIG_RESOURCE: Final = f"{PREFIX}mig-"
"""Precedes a profile, such as 1g.5gb or 1g.5gb.me."""
PART_MEMORY_RESOURCE: Final = f"{PREFIX}gpumem"
"""The MiB of each card of a container to which HAMi gives a part of a card."""
PART_CORES_RESOURCE: Final = f"{PREFIX}gpucores"
"""The percent of each card's compute of such a container."""

PRODUCT_LABEL: Final = f"{PREFIX}gpu.product"
MEMORY_LABEL: Final = f"{PREFIX}gpu.memory"
CLIQUE_LABEL: Final = f"{PREFIX}gpu.clique"
"""The label of nodes with their NVLink domain."""

GPU_TAINT: Final = CARD_RESOURCE
"""The key of the taint that keeps tasks without cards off GPU nodes."""

_DRIVER_LABELS: Final = (f"{PREFIX}cuda.driver-version", f"{PREFIX}cuda.driver")
_RUNTIME_LABELS: Final = (f"{PREFIX}cuda.runtime-version", f"{PREFIX}cuda.runtime")
"""The newest CUDA version that the driver supports: label of GPU feature discovery since 0.16, and before."""
_PARTS: Final = (("major", "minor", "revision"), ("major", "minor", "rev"))


def read_versions(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the versions of driver and CUDA in a node's labels; "" for a missing one."""
    return _version(labels, _DRIVER_LABELS), _version(labels, _RUNTIME_LABELS)


def _version(labels: Mapping[str, str], names: tuple[str, str]) -> str:
    for name, parts in zip(names, _PARTS, strict=True):
        known = [labels[f"{name}.{part}"] for part in parts if labels.get(f"{name}.{part}")]
        if full := labels.get(f"{name}.full") or ".".join(known):
            return full
    return ""
