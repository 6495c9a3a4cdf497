"""A job as the engine of a cluster gets it: what its tasks count, and which flavors may hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.backends.delegation import Group, Workload
from clusters.models import Flavor
from foundation.identifiers import dns_label
from scheduling.models import GpuRequestMode, Job, JobRole

_MOST: int = 40


@dataclass(frozen=True, slots=True)
class NoPool:
    """No flavor of the queue is of the kind that the role asks for."""

    role: str


def workload_of(job: Job, roles: Sequence[JobRole], flavors: Sequence[Flavor]) -> Workload | NoPool:
    """The workload of a job. Needs `workspace` selected; `flavors` are its queue's."""
    groups = []
    for role in roles:
        pools = _suiting(role, flavors)
        if not pools:
            return NoPool(role.name)
        groups.append(_group(job, role, pools, elastic=role.pk == _elastic(roles)))
    return Workload(
        namespace=job.workspace.slug,
        name=f"{dns_label(job.name, _MOST)}-{job.pk.hex[-8:]}",
        job=str(job.pk),
        queue=str(job.queue_id),
        priority_class=str(job.priority_class_id),
        priority=job.priority,
        attempt=job.attempt_number + 1,
        groups=tuple(groups),
    )


def _elastic(roles: Iterable[JobRole]) -> object:
    """The one role that may be admitted at a smaller size: engines of clusters allow no second one."""
    return next((role.pk for role in roles if role.min_replicas < role.replicas), None)


def _suiting(role: JobRole, flavors: Sequence[Flavor]) -> list[Flavor]:
    if role.gpu_mode == GpuRequestMode.NONE or not role.gpu_cards:
        return list(flavors)
    if role.gpu_mode == GpuRequestMode.MIG:
        return []  # no backend with an engine of its own hands out instances
    models = role.gpu_models
    return [f for f in flavors if f.gpu_mode == role.gpu_mode and (not models or f.card_model in models)]


def _group(job: Job, role: JobRole, pools: Sequence[Flavor], *, elastic: bool) -> Group:
    rules: Mapping[str, Any] = job.placement
    affinity = (rules.get("node_affinity") or {}).get("required") or ()
    sliced = role.gpu_mode == GpuRequestMode.SLICE
    return Group(
        name=role.name,
        count=role.replicas,
        least=role.min_replicas if elastic else role.replicas,
        cpu_millicores=role.cpu_millicores,
        memory_mib=role.memory_mib,
        cards=role.gpu_cards if role.gpu_mode != GpuRequestMode.NONE else 0,
        cores=role.gpu_cores if sliced else 0,
        gpu_memory_mib=_memory_mib(role, pools) if sliced else 0,
        pools=tuple(str(pool.pk) for pool in pools),
        node_selector=rules.get("node_selector") or {},
        node_affinity=[[dict(item) for item in term] for term in affinity],
        tolerations=rules.get("tolerations") or (),
    )


def _memory_mib(role: JobRole, pools: Sequence[Flavor]) -> int:
    """Of one part of a card: of the largest card that may be had, where it is a percentage.

    What a workload counts must not depend on the flavor it gets; we charge what it really got.
    """
    if role.gpu_memory_mib is not None:
        return int(role.gpu_memory_mib)
    largest = max(pool.card_memory_mib for pool in pools)
    if role.gpu_memory_percent is None:
        return largest
    return -(-largest * role.gpu_memory_percent // 100)
