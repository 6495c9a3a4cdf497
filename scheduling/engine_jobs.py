"""Jobs as the engine sees them, made from rows or from a specification that is not a job yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from quotas.models import Queue
from scheduling.engine import model as em
from scheduling.models import GpuRequestMode, Job, JobRole
from scheduling.spec import JobSpec, RoleSpec

ASKED: Final = "asked"
"""The id of a job that only a specification describes."""


def engine_job(job: Job, roles: Sequence[JobRole]) -> em.Job:
    """One stored job; `roles` in their order."""
    backoff = job.backoff_until
    return em.Job(
        id=str(job.pk),
        queue=str(job.queue_id),
        roles=tuple(_stored_role(role) for role in roles),
        submitted_at=em.Instant(job.submitted_at.timestamp()),
        user=str(job.submitted_by_id),
        priority=job.priority,
        min_available=job.min_available,
        preemptible=job.preemptible,
        min_run_s=job.min_run_s,
        max_run_s=job.max_run_s,
        rules=placement_rules(job.placement),
        backoff_until=em.Instant(backoff.timestamp()) if backoff else None,
        evictions=job.attempt_number,
    )


def asked_job(spec: JobSpec, queue: Queue, *, priority: int, now: datetime) -> em.Job:
    """The job that a specification would become if it were submitted now."""
    return em.Job(
        id=ASKED,
        queue=str(queue.pk),
        roles=tuple(_asked_role(role) for role in spec.roles),
        submitted_at=em.Instant(now.timestamp()),
        priority=priority,
        min_available=spec.min_available,
        preemptible=spec.preemptible,
        rules=placement_rules(spec.placement),
    )


def _stored_role(role: JobRole) -> em.Role:
    gpu = None
    if role.gpu_mode != GpuRequestMode.NONE and role.gpu_cards:
        whole = role.gpu_mode == GpuRequestMode.WHOLE
        gpu = em.GpuRequest(
            cards=role.gpu_cards,
            mode=em.GpuMode.WHOLE if whole else em.GpuMode.SLICE,
            cores=None if whole else role.gpu_cores,
            memory=role.gpu_memory_mib,
            memory_percent=role.gpu_memory_percent,
            models=tuple(role.gpu_models),
        )
    request = em.Request(cpu=role.cpu_millicores, memory=role.memory_mib, gpu=gpu)
    return em.Role(name=role.name, replicas=role.replicas, min_replicas=role.min_replicas, request=request)


def _asked_role(role: RoleSpec) -> em.Role:
    gpu = None
    if role.gpu is not None:
        whole = role.gpu.mode == GpuRequestMode.WHOLE
        gpu = em.GpuRequest(
            cards=role.gpu.cards,
            mode=em.GpuMode.WHOLE if whole else em.GpuMode.SLICE,
            cores=None if whole else role.gpu.cores,
            memory=role.gpu.memory_mib,
            memory_percent=role.gpu.memory_percent,
            models=role.gpu.models,
        )
    request = em.Request(cpu=role.cpu_millicores, memory=role.memory_mib, gpu=gpu)
    return em.Role(name=role.name, replicas=role.replicas, min_replicas=role.min_replicas, request=request)


def placement_rules(placement: Mapping[str, Any]) -> em.PlacementRules:
    """Where a job may run, from its stored (normalised) form."""
    terms = placement.get("node_affinity") or {}
    return em.PlacementRules(
        node_name=placement.get("node_name"),
        node_selector=placement.get("node_selector") or {},
        node_affinity=tuple(
            tuple(
                em.Expression(e["key"], em.AffinityOperator(e["operator"]), tuple(e.get("values", ())))
                for e in term
            )
            for term in terms.get("required", ())
        ),
        tolerations=tuple(toleration(item) for item in placement.get("tolerations") or ()),
    )


def toleration(item: Mapping[str, Any]) -> em.Toleration:
    """One toleration in its stored form, which is that of Kubernetes."""
    effect = item.get("effect")
    return em.Toleration(
        key=item.get("key", ""),
        operator=em.TolerationOperator(item.get("operator", "Equal")),
        value=item.get("value", ""),
        effect=em.TaintEffect(effect) if effect else None,
    )
