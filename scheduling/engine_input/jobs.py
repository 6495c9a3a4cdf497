"""Converts rows of jobs, or a specification that is not submitted yet, to jobs of the engine."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from quotas.models import Queue
from scheduling.engine import model as em
from scheduling.job_file import JobSpec, job_columns, level_label, role_columns
from scheduling.job_file.declaration.fields import ALL
from scheduling.models import NO_GROWTH, GpuRequestMode, Job, JobKind, JobRole, JobState

ASKED: Final = "asked"
"""The id of a job that is made from a specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """The time for which the GPUs of a running job have been idle, and the action of its policy.

    `act_after_s` is None while nothing is to be done; then the job is evicted, or with `shrinks` scaled down
    to its minimum. `preemptible`: other jobs may preempt it as long as it is idle.
    """

    since: datetime
    act_after_s: int | None = None
    shrinks: bool = False
    preemptible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The history of a job that its own row does not contain.

    `evictions` counts the attempts that ended because the job was evicted for another job, `evicted_at` is
    when the last of them ended, `ended` counts the finished tasks by role. `promised`: the job has a claim.
    `drained_until`: it was drained lately and does not borrow until then. `idle`: all its GPUs are measured
    idle. `scaled_at` is when the current attempt last grew or shrank, `shrinks` how often it has shrunk.
    """

    evictions: int = 0
    evicted_at: datetime | None = None
    ended: Mapping[uuid.UUID, int] = field(default_factory=dict)
    promised: bool = False
    drained_until: datetime | None = None
    idle: Idleness | None = None
    scaled_at: datetime | None = None
    shrinks: int = 0


class RoleRow(NamedTuple):
    """The fields of a `JobRole` row that the engine needs, by their names, to be read as values."""

    id: uuid.UUID
    job_id: uuid.UUID
    name: str
    replicas: int
    min_replicas: int
    cpu_millicores: int
    memory_mib: int
    gpu_mode: str
    gpu_cards: int
    gpu_cores: int
    gpu_memory_mib: int | None
    gpu_memory_percent: int | None
    gpu_models: Sequence[str]
    gpu_profile: str
    container: Mapping[str, Any]


_NEW: Final = Past()
_GROWING_KINDS: Final = (JobKind.BATCH, JobKind.PYTORCH, JobKind.SERVICE)
"""The kinds of jobs that can grow; tasks of other kinds get their list of peers once, when they start."""
_GROWTH_STEP_S: Final = 60
_GROWTH_PAUSE_S: Final = 300
_GROWTH_PAUSE_MOST_S: Final = 3600
_STATES: Final = {
    JobState.QUEUED: em.JobState.QUEUED,
    JobState.ADMITTED: em.JobState.LIVE,
    JobState.STARTING: em.JobState.LIVE,
    JobState.RUNNING: em.JobState.LIVE,
    JobState.EVICTING: em.JobState.LEAVING,
    JobState.STOPPING: em.JobState.LEAVING,
}


_OF_FILE: Final = tuple(field.name for field in ALL if field.engine)
"""The fields of the job file that the engine's job also has, under the same names."""
_values_of_file: Final = attrgetter(*_OF_FILE)


def engine_job(
    job: Job,
    roles: Sequence[JobRole | RoleRow],
    *,
    watched: Container[uuid.UUID] = (),
    past: Past = _NEW,
    name: str = "",
) -> em.Job:
    """Return the engine's job of an unfinished job; `roles` are in their order.

    `watched` are the workspaces that `watched_workspaces` returns; `name` is the engine's id of the job if it
    is not the row's.
    """
    name = name or str(job.pk)
    namespace = str(job.workspace_id) if job.workspace_id in watched else ""
    of_file = dict(zip(_OF_FILE, _values_of_file(job), strict=True))
    if past.idle is not None:
        of_file |= _idle_fields(past.idle)
    return em.Job(
        id=name,
        queue=str(job.queue_id),
        roles=tuple(_stored_role(role, past.ended.get(role.id, 0)) for role in roles),
        submitted_at=em.Instant(job.ordered_at.timestamp()),
        user=str(job.submitted_by_id),
        priority=job.priority,
        **of_file,
        rules=placement_rules(job.placement, namespace=namespace, group=name),
        topology=topology_rule(job.placement),
        backoff_until=_instant(job.backoff_until),
        state=_STATES[JobState(job.state)],
        admitted_at=_instant(job.admitted_at),
        running_since=_instant(job.started_at),
        evictions=past.evictions,
        evicted_at=_instant(past.evicted_at),
        preempting=past.promised,
        drained=past.drained_until is not None,
        drained_until=_instant(past.drained_until),
        grows=JobKind(job.kind) in _GROWING_KINDS and past.shrinks < NO_GROWTH,
        grow_after=_grow_after(job, past),
        # A job whose rules end it after an eviction would not start again on its new nodes.
        movable=not any(rule["on"] == "task_evicted" for rule in job.lifecycle),
    )


def _grow_after(job: Job, past: Past) -> em.Instant | None:
    """Return when a job may grow again. Each change of its size loses the work since its last checkpoint; the
    pause doubles with each shrink, up to an hour, so that the size does not oscillate."""
    if past.scaled_at is None or past.shrinks >= NO_GROWTH:
        return None
    after_shrink = min(_GROWTH_PAUSE_S * 2 ** (past.shrinks - 1), _GROWTH_PAUSE_MOST_S) if past.shrinks else 0
    pause = max(after_shrink, job.checkpoint_interval_s or 0, _GROWTH_STEP_S)
    return _instant(past.scaled_at + timedelta(seconds=pause))


def _idle_fields(idle: Idleness) -> dict[str, Any]:
    """Return the engine's fields of an idle job; a job made preemptible loses its guaranteed run time."""
    fields: dict[str, Any] = {
        "idle_since": _instant(idle.since),
        "max_idle_s": -1 if idle.act_after_s is None else idle.act_after_s,
        "shrinks_when_idle": idle.shrinks,
    }
    return fields | ({"preemptible": True, "min_run_s": 0} if idle.preemptible else {})


def _instant(moment: datetime | None) -> em.Instant | None:
    return None if moment is None else em.Instant(moment.timestamp())


def asked_job(spec: JobSpec, queue: Queue, *, priority: int, now: datetime, user: Any = None) -> em.Job:
    """Return the job that a specification would become if `user` (an id) submitted it now."""
    workspace = queue.workspace_id
    job = Job(
        workspace_id=workspace,
        queue_id=queue.pk,
        submitted_by_id=user,
        priority=priority,
        submitted_at=now,
        **job_columns(spec),
    )
    roles = [JobRole(**role_columns(role)) for role in spec.roles]
    return engine_job(job, roles, watched=(workspace,), name=ASKED)


def as_counted(profile: str) -> str:
    """Return a MIG profile as resource names of nodes spell it: `.me` for `+me` (media engines)."""
    return profile.replace("+", ".")


def _stored_role(role: JobRole | RoleRow, ended: int) -> em.Role:
    asked: tuple[Any, ...] | None = None
    if role.gpu_mode != GpuRequestMode.NONE and role.gpu_cards:
        memory = (role.gpu_memory_mib, role.gpu_memory_percent)
        models = tuple(role.gpu_models)
        asked = (role.gpu_mode, role.gpu_cards, role.gpu_cores, memory, models, role.gpu_profile)
    qos = _qos(role.cpu_millicores, role.memory_mib, role.container)
    sizes = role.replicas, role.min_replicas
    return _role(role.name, sizes, (role.cpu_millicores, role.memory_mib), qos, asked, ended)


@lru_cache(maxsize=4096)
def _role(
    name: str,
    sizes: tuple[int, int],
    each: tuple[int, int],
    qos: em.QosClass,
    gpu: tuple[Any, ...] | None,
    ended: int,
) -> em.Role:
    """Return a role, one object for equal requests; `each` is a task's CPU and memory, `gpu` as for
    `_gpu`."""
    request = em.Request(cpu=each[0], memory=each[1], gpu=None if gpu is None else _gpu(*gpu), qos=qos)
    return em.Role(name=name, replicas=sizes[0], min_replicas=sizes[1], request=request, ended=ended)


def _qos(cpu_millicores: int, memory_mib: int, container: Mapping[str, Any]) -> em.QosClass:
    """Return the QoS class that Kubernetes derives for a task from CPU and memory; GPUs do not count."""
    asked = {"cpu": f"{cpu_millicores}m", "memory": f"{memory_mib}Mi"}
    limits: Mapping[str, str] = container.get("limits", {})
    if not (cpu_millicores or memory_mib or limits):
        return em.QosClass.BEST_EFFORT
    same = cpu_millicores and memory_mib and all(asked[name] == limit for name, limit in limits.items())
    return em.QosClass.GUARANTEED if same else em.QosClass.BURSTABLE


def _gpu(
    mode: str,
    cards: int,
    cores: int,
    memory: tuple[int | None, int | None],
    models: Sequence[str],
    profile: str,
) -> em.GpuRequest:
    """Return the GPU request of one task; only a slice has cores, and memory in MiB or percent."""
    if mode != GpuRequestMode.SLICE:
        return em.GpuRequest(
            cards=cards, mode=em.GpuMode(mode), models=tuple(models), profile=as_counted(profile)
        )
    mib, percent = memory
    return em.GpuRequest(
        cards=cards,
        mode=em.GpuMode.SLICE,
        cores=cores,
        memory=mib,
        memory_percent=percent,
        models=tuple(models),
    )


def watched_workspaces(placements: Iterable[tuple[uuid.UUID, Mapping[str, Any]]]) -> frozenset[uuid.UUID]:
    """Return the workspaces in which the pod (anti-)affinity of some job refers to other tasks.

    Only there do jobs get their workspace as namespace; elsewhere equal jobs of different workspaces stay
    equivalent, which makes the engine faster.
    """
    return frozenset(
        workspace
        for workspace, placement in placements
        if placement.get("pod_affinity") or placement.get("pod_anti_affinity")
    )


def placement_rules(
    placement: Mapping[str, Any], *, namespace: str = "", group: str = ""
) -> em.PlacementRules:
    """Return the rules about where a job may run and should preferably run, from its stored (normalised)
    form.

    `namespace` is the workspace in which pod (anti-)affinity sees its tasks, empty if none refers to them;
    `group` names its tasks if they are to be placed close together when possible.
    """
    if not placement and not namespace:
        return em.ANYWHERE
    nodes = placement.get("node_affinity") or {}
    near, apart = (placement.get(key) or {} for key in ("pod_affinity", "pod_anti_affinity"))
    together = (placement.get("topology") or {}).get("mode") == em.TopologyMode.PREFERRED
    return em.PlacementRules(
        node_name=placement.get("node_name"),
        node_selector=placement.get("node_selector") or {},
        node_affinity=tuple(_expressions(term) for term in nodes.get("required", ())),
        tolerations=tuple(read_toleration(item) for item in placement.get("tolerations") or ()),
        preferred_nodes=tuple(
            em.PreferredNodes(term["weight"], _expressions(term["match_expressions"]))
            for term in nodes.get("preferred", ())
        ),
        namespace=namespace,
        labels=placement.get("labels") or {},
        pod_affinity=tuple(_pod_term(term) for term in near.get("required", ())),
        pod_anti_affinity=tuple(_pod_term(term) for term in apart.get("required", ())),
        preferred_pods=tuple(_preferred(term) for term in near.get("preferred", ())),
        avoided_pods=tuple(_preferred(term) for term in apart.get("preferred", ())),
        group=group if together else "",
    )


def topology_rule(placement: Mapping[str, Any]) -> em.TopologyRule | None:
    """Return the topology level within which the tasks of a job must or should be placed; None for none."""
    asked = placement.get("topology")
    if not asked:
        return None
    return em.TopologyRule(level=level_label(asked["level"]), mode=em.TopologyMode(asked["mode"]))


def _pod_term(term: Mapping[str, Any]) -> em.PodTerm:
    pairs = (
        em.Expression(key, em.AffinityOperator.IN, (value,))
        for key, value in sorted((term.get("match_labels") or {}).items())
    )
    expressions = (*pairs, *_expressions(term.get("match_expressions") or ()))
    return em.PodTerm(level_label(term["topology_key"]), expressions)


def _preferred(term: Mapping[str, Any]) -> em.PreferredPods:
    return em.PreferredPods(term["weight"], _pod_term(term))


def _expressions(term: Iterable[Mapping[str, Any]]) -> tuple[em.Expression, ...]:
    return tuple(
        em.Expression(item["key"], em.AffinityOperator(item["operator"]), tuple(item.get("values", ())))
        for item in term
    )


def read_toleration(item: Mapping[str, Any]) -> em.Toleration:
    """Return a toleration from its stored form, which is that of Kubernetes."""
    effect = item.get("effect")
    return em.Toleration(
        key=item.get("key", ""),
        operator=em.TolerationOperator(item.get("operator", "Equal")),
        value=item.get("value", ""),
        effect=em.TaintEffect(effect) if effect else None,
    )
