"""The size of pools, and of one GPU of a pool, in the resources that quota counts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, Max, Sum

from clusters.models import Device, Flavor, GpuMode, Node
from foundation.core.quantities import WHOLE_CARD, Resource
from quotas.tree.limits import Amount

OF_GPUS: Final = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY)
OF_NODES: Final = (Resource.CPU, Resource.MEMORY)


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Healthy GPUs and nodes that are present, in the units of quota.

    `gpu` is what one GPU counts, `gpus` all of them, `nodes` the CPU and memory of the nodes. Where GPUs are
    cut into slices their number is not limited: each slice counts as one. An instance of MIG counts as the
    largest of its pool. `per_gpu` is the CPU and memory that the pool's settings name for one GPU; None is
    the ratio of the nodes.
    """

    count: int
    gpu: Mapping[Resource, Amount]
    gpus: Mapping[Resource, Amount]
    nodes: Mapping[Resource, int]
    per_gpu: Mapping[Resource, int | None]

    def compute_share(self, resource: Resource, gpus: int) -> int | None:
        """Compute the CPU or memory that goes with a number of GPUs; None where no ratio is known."""
        each = self.per_gpu[resource]
        if each is not None:
            return gpus * each
        return self.nodes[resource] * gpus // self.count if self.count else None

    def compute_amounts(self, gpus: int | None) -> dict[Resource, Amount]:
        """Compute the amounts of a number of GPUs; None is unlimited."""
        return {
            resource: None if gpus is None or each is None else gpus * each
            for resource, each in self.gpu.items()
        }


def pool_sizes(flavors: Iterable[Flavor]) -> dict[uuid.UUID, PoolSize]:
    """Return the size of each of these pools, in two queries."""
    wanted = list(flavors)
    here = {"node__flavor__in": wanted, "node__present": True, "healthy": True}
    rows = Device.unscoped.filter(**here).order_by().values("node__flavor")
    cards: dict[uuid.UUID, Mapping[str, int]] = {
        row["node__flavor"]: {name: row[name] for name in ("count", "cores", "memory", "largest")}
        for row in rows.annotate(
            count=Count("pk"),
            cores=Sum("cores_capacity"),
            memory=Sum("memory_capacity"),
            largest=Max("cores_capacity"),
        )
    }
    of_nodes = Node.unscoped.filter(flavor__in=wanted, present=True).order_by().values("flavor")
    nodes = {
        row["flavor"]: {Resource.CPU: row["cpu"], Resource.MEMORY: row["memory"]}
        for row in of_nodes.annotate(cpu=Sum("cpu_millicores"), memory=Sum("memory_mib"))
    }
    return {
        flavor.pk: _size(flavor, cards.get(flavor.pk, {}), nodes.get(flavor.pk, dict.fromkeys(OF_NODES, 0)))
        for flavor in wanted
    }


def _size(flavor: Flavor, cards: Mapping[str, int], nodes: Mapping[Resource, int]) -> PoolSize:
    count = cards.get("count", 0)
    mig = flavor.gpu_mode == GpuMode.MIG
    number: Amount = None if flavor.gpu_mode == GpuMode.SLICE else 1
    cores = cards.get("largest", 0) if mig else int(WHOLE_CARD)
    gpu: dict[Resource, Amount] = {
        Resource.GPU_CARDS: number,
        Resource.GPU_CORES: cores,
        Resource.GPU_MEMORY: flavor.card_memory_mib,
    }
    # A whole GPU is charged the memory that its pool names, whatever memory the GPU has.
    whole = flavor.gpu_mode == GpuMode.WHOLE
    gpus: dict[Resource, Amount] = {
        Resource.GPU_CARDS: None if number is None else count,
        Resource.GPU_CORES: count * cores if whole else cards.get("cores", 0),
        Resource.GPU_MEMORY: count * flavor.card_memory_mib if whole else cards.get("memory", 0),
    }
    per_gpu = {Resource.CPU: flavor.cpu_per_gpu, Resource.MEMORY: flavor.memory_per_gpu}
    return PoolSize(count, gpu, gpus, nodes, per_gpu)
