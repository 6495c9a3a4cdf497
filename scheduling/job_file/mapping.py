"""Converts between a specification, the rows of a job and a job file, by the declaration of the fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduling.job_file.declaration.fields import fields_below
from scheduling.job_file.values.kinds import Cpu, Memory
from scheduling.job_file.values.memory import written_memory
from scheduling.job_file.values.types import GpuSpec, JobSpec, RoleSpec
from scheduling.models import GpuRequestMode, Job, JobRole

_SPREAD: Final = ("gang", "roles.resources")
"""The mappings whose fields are columns of the row."""
_ELSEWHERE: Final = ("roles", "queue", "priority_class", "roles.resources.gpu")
"""The fields that are not single columns: related rows, foreign keys, and the several columns of cards."""


def _columns(path: str) -> tuple[str, ...]:
    names: list[str] = []
    for field in fields_below(path):
        if field.path in _SPREAD:
            names += _columns(field.path)
        elif not field.for_pods and field.path not in _ELSEWHERE:
            names.append(field.name)
    return tuple(names)


JOB_COLUMNS: Final = _columns("")
ROLE_COLUMNS: Final = _columns("roles")


def job_columns(spec: JobSpec) -> dict[str, Any]:
    """Return the columns of a job's row for its specification."""
    return {name: _stored(getattr(spec, name)) for name in (*JOB_COLUMNS, "runtime")}


def role_columns(role: RoleSpec) -> dict[str, Any]:
    """Return the columns of a role's row for its specification."""
    found = {name: _stored(getattr(role, name)) for name in (*ROLE_COLUMNS, "container")}
    gpu = role.gpu
    if gpu is None:
        return found | {"gpu_mode": GpuRequestMode.NONE}
    return found | {
        "gpu_mode": gpu.mode,
        "gpu_cards": gpu.cards,
        "gpu_cores": gpu.cores,
        "gpu_memory_mib": gpu.memory_mib,
        "gpu_memory_percent": gpu.memory_percent,
        "gpu_models": list(gpu.models),
        "gpu_profile": gpu.profile,
    }


def to_mapping(job: Job, roles: Sequence[JobRole] | None = None) -> dict[str, Any]:
    """Return the job file of a stored job, including all defaults.

    `roles` in their order saves a query. `queue` and `priority_class` should be selected.
    """
    rows = list(job.roles.all()) if roles is None else list(roles)
    own = {
        "queue": job.queue.name,
        "priority_class": job.priority_class.name,
        "roles": [_role(role, _stored_cards(role)) for role in rows],
    }
    return _written("", job, job.runtime, own)


def spec_mapping(spec: JobSpec) -> dict[str, Any]:
    """Return the job file of a specification, including all defaults."""
    own = {
        "queue": spec.queue,
        "priority_class": spec.priority_class,
        "roles": [_role(role, role.gpu) for role in spec.roles],
    }
    return _written("", spec, spec.runtime, own)


def _written(path: str, row: Any, pods: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping at `path` from the columns of `row`; `pods` is its JSON for building pods."""
    found: dict[str, Any] = {}
    for field in fields_below(path):
        key = field.key
        if field.path in _ELSEWHERE or field.for_pods:
            source = own if field.path in _ELSEWHERE else pods
            if key in source:
                found[key] = source[key]
        elif field.path in _SPREAD:
            found[key] = _written(field.path, row, pods, own)
        else:
            value = getattr(row, field.name)
            found[key] = field.kind.format_amount(value) if isinstance(field.kind, Cpu | Memory) else value
    return found


def _role(role: JobRole | RoleSpec, gpu: GpuSpec | None) -> dict[str, Any]:
    return _written("roles", role, role.container, {} if gpu is None else {"gpu": _cards(gpu)})


def _stored_cards(role: JobRole) -> GpuSpec | None:
    if role.gpu_mode == GpuRequestMode.NONE:
        return None
    return GpuSpec(
        cards=role.gpu_cards,
        mode=GpuRequestMode(role.gpu_mode),
        cores=role.gpu_cores,
        memory_mib=role.gpu_memory_mib,
        memory_percent=role.gpu_memory_percent,
        models=tuple(role.gpu_models),
        profile=role.gpu_profile,
    )


def _cards(gpu: GpuSpec) -> dict[str, Any]:
    found: dict[str, Any] = {"cards": gpu.cards, "mode": str(gpu.mode)}
    if gpu.mode == GpuRequestMode.SLICE:
        percent = gpu.memory_percent
        memory = f"{percent}%" if percent is not None else written_memory(gpu.memory_mib or 0)
        found |= {"cores": gpu.cores, "memory": memory}
    if gpu.profile:
        found["profile"] = gpu.profile
    if gpu.models:
        found["model"] = list(gpu.models)
    return found


def _stored(value: Any) -> Any:
    """Return a value in the form of JSON and columns."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
