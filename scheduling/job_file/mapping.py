"""A stored job back into the shape of a job file: for the API, and to submit it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduling.job_file.memory import written_memory
from scheduling.models import GpuRequestMode, Job, JobRole


def to_mapping(job: Job, roles: Sequence[JobRole] | None = None) -> dict[str, Any]:
    """The specification of `job`, with every default written out.

    `roles` in their order saves the query. `queue` and `priority_class` should be selected.
    """
    rows = list(job.roles.all()) if roles is None else list(roles)
    return {
        "kind": job.kind,
        "name": job.name,
        "queue": job.queue.name,
        "priority_class": job.priority_class.name,
        "preemptible": job.preemptible,
        "min_run_s": job.min_run_s,
        "max_run_s": job.max_run_s,
        "checkpoint_interval_s": job.checkpoint_interval_s,
        "gang": {"min_available": job.min_available},
        "roles": [_role(role) for role in rows],
        "placement": job.placement,
        "lifecycle": job.lifecycle,
        "environment": job.environment,
        "volumes": job.volumes,
        **job.runtime,
        "simulate": job.simulate,
    }


def _role(role: JobRole) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpu": _cpu(role.cpu_millicores), "memory": written_memory(role.memory_mib)}
    if role.gpu_mode != GpuRequestMode.NONE:
        resources["gpu"] = _gpu(role)
    container = dict(role.container)
    for key in ("limits", "exclusive_cpus"):
        if key in container:
            resources[key] = container.pop(key)
    return {
        "name": role.name,
        "replicas": role.replicas,
        "min_replicas": role.min_replicas,
        "image": role.image,
        "command": role.command,
        **container,
        "resources": resources,
    }


def _cpu(millicores: int) -> str:
    return f"{millicores}m" if millicores % 1000 else str(millicores // 1000)


def _gpu(role: JobRole) -> dict[str, Any]:
    gpu: dict[str, Any] = {"cards": role.gpu_cards, "mode": role.gpu_mode}
    if role.gpu_mode == GpuRequestMode.SLICE:
        gpu["cores"] = role.gpu_cores
        percent = role.gpu_memory_percent
        gpu["memory"] = f"{percent}%" if percent is not None else written_memory(role.gpu_memory_mib or 0)
    if role.gpu_profile:
        gpu["profile"] = role.gpu_profile
    if role.gpu_models:
        gpu["model"] = role.gpu_models
    return gpu
