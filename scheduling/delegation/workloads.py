"""The workload of a job for a cluster's own engine: the charges of its tasks, and their possible flavors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from clusters.backends.delegation import DelegatedPodSet, DelegatedWorkload
from clusters.models import Flavor
from foundation.core.identifiers import dns_label
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from scheduling import engine
from scheduling.delegation.platform_limits import PlatformLimits, Unwanted, budget_refusal
from scheduling.engine import model as em
from scheduling.engine_input.jobs import engine_job
from scheduling.models import GpuRequestMode, Job, JobRole

_MOST: Final = 40
_OF_CARDS: Final = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY)


def workload_of(
    job: Job,
    roles: Sequence[JobRole],
    flavors: Sequence[Flavor],
    pools: Mapping[str, em.Flavor],
    curbs: PlatformLimits,
) -> DelegatedWorkload | Unwanted:
    """Return the workload of a job, or why it must have none. The job needs `workspace` selected; `flavors`
    are its queue's, `pools` the engine's flavors by id."""
    groups, barred = [], curbs.barred_flavors(job)
    sizes = engine_job(job, roles).roles
    for role, asked in zip(roles, sizes, strict=True):
        suiting = _suiting(role, flavors)
        if not suiting:
            return Unwanted(Reason.NEVER_FITS, {"role": role.name})
        free = [flavor for flavor in suiting if asked.request.gpu is None or str(flavor.pk) not in barred]
        if not free:
            return budget_refusal(barred[str(suiting[0].pk)], suiting[0].name)
        allowed = [pools[str(flavor.pk)] for flavor in free]
        groups.append(_group(job, role, asked.request, allowed, elastic=role.pk == _elastic(roles)))
    if (denied := curbs.find_limit(job, sizes, [group.pools for group in groups])) is not None:
        return denied
    return DelegatedWorkload(
        namespace=job.workspace.slug,
        workspace=str(job.workspace_id),
        name=f"{dns_label(job.name, _MOST)}-{job.pk.hex[-8:]}",
        job=str(job.pk),
        queue=str(job.queue_id),
        priority_class=str(job.priority_class_id),
        priority=job.priority,
        attempt=job.attempt_number + 1,
        groups=tuple(groups),
    )


def _elastic(roles: Iterable[JobRole]) -> object:
    """Return the key of the role that may be admitted at a smaller size: Kueue allows only one pod set."""
    return next((role.pk for role in roles if role.min_replicas < role.replicas), None)


def _suiting(role: JobRole, flavors: Sequence[Flavor]) -> list[Flavor]:
    if role.gpu_mode == GpuRequestMode.NONE or not role.gpu_cards:
        return list(flavors)
    models = role.gpu_models
    return [f for f in flavors if f.gpu_mode == role.gpu_mode and (not models or f.card_model in models)]


def _group(
    job: Job, role: JobRole, asked: em.Request, pools: Sequence[em.Flavor], *, elastic: bool
) -> DelegatedPodSet:
    rules: Mapping[str, Any] = job.placement
    affinity = (rules.get("node_affinity") or {}).get("required") or ()
    cards, cores, memory = (_most(asked, pools, item) for item in _OF_CARDS)
    parts = asked.gpu is not None and asked.gpu.mode is not em.GpuMode.WHOLE
    return DelegatedPodSet(
        name=role.name,
        count=role.replicas,
        least=role.min_replicas if elastic else role.replicas,
        cpu_millicores=asked.cpu,
        memory_mib=asked.memory,
        cards=cards,
        cores=cores if parts else 0,
        gpu_memory_mib=memory if parts else 0,
        pools=tuple(pool.id for pool in pools),
        node_selector=rules.get("node_selector") or {},
        node_affinity=[[dict(item) for item in term] for term in affinity],
        tolerations=rules.get("tolerations") or (),
    )


def _most(asked: em.Request, pools: Sequence[em.Flavor], resource: Resource) -> int:
    """Return the largest charge of one task.

    The amount that a workload requests must not depend on the flavor; the ledger has the actual charge.
    """
    return max(engine.compute_demand(asked, pool).get(resource.value, 0) for pool in pools)
