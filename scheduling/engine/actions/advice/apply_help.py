"""This module applies a recommendation to a job, as its user would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from foundation.core.quantities import Resource
from scheduling.engine.model import (
    Extended,
    GpuMode,
    Help,
    HelpCode,
    Job,
    PlacementRules,
    Role,
    Toleration,
    TolerationOperator,
)

_ANY_TAINT = Toleration(operator=TolerationOperator.EXISTS)
_WITHOUT: dict[str, Callable[[PlacementRules], PlacementRules]] = {
    "node-name": lambda rules: replace(rules, node_name=None),
    "node-selector": lambda rules: replace(rules, node_selector={}),
    "node-affinity": lambda rules: replace(rules, node_affinity=()),
    "taint": lambda rules: replace(rules, tolerations=(*rules.tolerations, _ANY_TAINT)),
    "pod-affinity": lambda rules: replace(rules, pod_affinity=()),
    "pod-anti-affinity": lambda rules: replace(rules, pod_anti_affinity=()),
}


def apply_help(job: Job, way: Help) -> Job | None:
    """Return the job after one recommendation; None if that is nothing that the job can change."""
    numbers, name = way.numbers, str(way.numbers.get("role", ""))
    match way.code:
        case HelpCode.MAKE_PREEMPTIBLE:
            return replace(job, preemptible=True)
        case HelpCode.LOOSEN_PLACEMENT:
            return _loosened(job, str(numbers["veto"]))
        case HelpCode.ASK_OTHER_MODEL:
            models = tuple(str(numbers["models"]).split(","))
            return _with_role(job, name, lambda role: _with_gpu(role, models=models))
        case HelpCode.ASK_OTHER_PROFILE:
            profile = str(numbers["profiles"]).split(",")[0]
            return _with_role(job, name, lambda role: _with_gpu(role, profile=profile))
        case HelpCode.ASK_FEWER_CARDS:
            return _with_role(job, name, lambda role: _with_gpu(role, cards=int(numbers["cards"])))
        case HelpCode.ASK_FEWER_TASKS:
            tasks = int(numbers["tasks"])
            fewer = _with_role(job, name, lambda role: replace(role, replicas=tasks, min_replicas=None))
            return None if fewer is None else replace(fewer, min_available=None)
        case HelpCode.ASK_LESS:
            resource, limit = str(numbers["resource"]), int(numbers.get("each", numbers["limit"]))
            return _with_role(job, name, lambda role: _with_less(role, resource, limit))
    return None


def find_role(job: Job, name: str) -> Role | None:
    """Return the role of this name, or the only role if no name is given."""
    if not name:
        return job.roles[0] if len(job.roles) == 1 else None
    return next((role for role in job.roles if role.name == name), None)


def _with_role(job: Job, name: str, change: Callable[[Role], Role | None]) -> Job | None:
    role = find_role(job, name)
    changed = None if role is None else change(role)
    if role is None or changed is None or changed == role:
        return None
    return replace(job, roles=tuple(changed if one is role else one for one in job.roles))


def _with_gpu(role: Role, **facts: object) -> Role | None:
    gpu = role.request.gpu
    if gpu is None:
        return None
    return replace(role, request=replace(role.request, gpu=replace(gpu, **facts)))  # type: ignore[arg-type]


def _with_less(role: Role, resource: str, limit: int) -> Role | None:
    """Return the role with no more than this amount of a resource for each task."""
    request, gpu = role.request, role.request.gpu
    if resource == Resource.CPU:
        return replace(role, request=replace(request, cpu=min(request.cpu, limit)))
    if resource == Resource.MEMORY:
        return replace(role, request=replace(request, memory=min(request.memory, limit)))
    if resource == Resource.GPU_MEMORY and gpu is not None and gpu.mode is GpuMode.SLICE and limit:
        return _with_gpu(role, memory=limit, memory_percent=None)
    named = {item.resource for item in request.extended}
    if resource not in named:
        return None
    less = tuple(
        Extended(item.resource, min(item.amount, limit)) if item.resource == resource else item
        for item in request.extended
    )
    return replace(role, request=replace(request, extended=less))


def _loosened(job: Job, veto: str) -> Job | None:
    without = _WITHOUT.get(veto)
    if without is None:
        return None
    roles = tuple(
        role if role.rules is None else replace(role, rules=without(role.rules)) for role in job.roles
    )
    return replace(job, rules=without(job.rules), roles=roles)
