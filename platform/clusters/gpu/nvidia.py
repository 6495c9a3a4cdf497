"""Names of NVIDIA's cards in Kubernetes: extended resources, node labels and the taint of GPU nodes.

Sources: NVIDIA's device plug-in (resources), its GPU feature discovery (labels), and HAMi for parts of a
card, whose annotations are in `hami`.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "nvidia.com/"

CARD_RESOURCE: Final = f"{PREFIX}gpu"
MIG_RESOURCE: Final = f"{PREFIX}mig-"
"""Before a profile, such as 1g.5gb or 1g.5gb.me."""
PART_MEMORY_RESOURCE: Final = f"{PREFIX}gpumem"
"""MiB of each card, of a container that HAMi gives a part of a card."""
PART_CORES_RESOURCE: Final = f"{PREFIX}gpucores"
"""Percent of each card's compute, of such a container."""

PRODUCT_LABEL: Final = f"{PREFIX}gpu.product"
MEMORY_LABEL: Final = f"{PREFIX}gpu.memory"
CLIQUE_LABEL: Final = f"{PREFIX}gpu.clique"
"""Nodes of one NVLink domain."""

GPU_TAINT: Final = CARD_RESOURCE
"""The key of the taint that keeps tasks without cards off GPU nodes."""
