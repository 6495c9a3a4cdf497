"""Jobs as the engine sees them, made from rows or from a specification that is not a job yet."""

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
"""The id of a job that only a specification describes."""


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
    """The past of a job, where its own row does not have it.

    `evictions` counts attempts that others put an end to, `evicted_at` is when the last of them ended,
    `ended` the tasks per role that have finished. `promised`: others were told to leave for it;
    `drained_until`: it was told so lately because its queue has too much, and borrows no more until then.
    `idle`: all its GPUs are measured idle. `scaled_at` is when the present attempt last grew or shrank,
    `shrinks` how often it has shrunk.
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
_ANYWHERE: Final = em.PlacementRules()
_GROWING_KINDS: Final = (JobKind.BATCH, JobKind.PYTORCH, JobKind.SERVICE)
"""Tasks of other kinds know their peers from the beginning, and cannot take in more."""
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
"""Fields of the job file that a job has in the engine as well, under the same names."""
_values_of_file: Final = attrgetter(*_OF_FILE)


def engine_job(
    job: Job,
    roles: Sequence[JobRole | RoleRow],
    *,
    watched: Container[uuid.UUID] = (),
    past: Past = _NEW,
    name: str = "",
) -> em.Job:
    """One job that waits or holds something; `roles` in their order.

    `watched` as `watched_workspaces` tells; `name` is its id in the engine where that is not the row's.
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
        # One that asks to end when it is evicted would not come back to its new place.
        movable=not any(rule["on"] == "task_evicted" for rule in job.lifecycle),
    )


def _grow_after(job: Job, past: Past) -> em.Instant | None:
    """Return when a job may grow again. Members that come or go cost it the work since its last checkpoint,
    and who shrinks again and again waits longer each time, so that nothing goes to and fro."""
    if past.scaled_at is None or past.shrinks >= NO_GROWTH:
        return None
    after_shrink = min(_GROWTH_PAUSE_S * 2 ** (past.shrinks - 1), _GROWTH_PAUSE_MOST_S) if past.shrinks else 0
    pause = max(after_shrink, job.checkpoint_interval_s or 0, _GROWTH_STEP_S)
    return _instant(past.scaled_at + timedelta(seconds=pause))


def _idle_fields(idle: Idleness) -> dict[str, Any]:
    """Return what the engine is told of an idle job; one that was made preemptible is not protected."""
    fields: dict[str, Any] = {
        "idle_since": _instant(idle.since),
        "max_idle_s": -1 if idle.act_after_s is None else idle.act_after_s,
        "shrinks_when_idle": idle.shrinks,
    }
    return fields | ({"preemptible": True, "min_run_s": 0} if idle.preemptible else {})


def _instant(moment: datetime | None) -> em.Instant | None:
    return None if moment is None else em.Instant(moment.timestamp())


def asked_job(spec: JobSpec, queue: Queue, *, priority: int, now: datetime, user: Any = None) -> em.Job:
    """The job that a specification would become if `user` (an id) submitted it now."""
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
    """A MIG profile as nodes count it: the mark of further engines is `.me` there and `+me` elsewhere."""
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
    """One for all jobs that ask alike; `each` are the CPU and the memory of a task, `gpu` as for `_gpu`."""
    request = em.Request(cpu=each[0], memory=each[1], gpu=None if gpu is None else _gpu(*gpu), qos=qos)
    return em.Role(name=name, replicas=sizes[0], min_replicas=sizes[1], request=request, ended=ended)


def _qos(cpu_millicores: int, memory_mib: int, container: Mapping[str, Any]) -> em.QosClass:
    """The class that Kubernetes derives for a task; cards have no part in it."""
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
    """Cards of one task; only a slice names cores, and memory in MiB or in percent."""
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
    """Workspaces in which some job speaks of other tasks: there every job matters, labelled or not.

    Elsewhere the engine need not tell jobs of different workspaces apart, which keeps it fast.
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

    `namespace` is the workspace under which its tasks meet others, empty where they need not; `group`
    names its tasks when they had better stand together.
    """
    if not placement and not namespace:
        return _ANYWHERE
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
    """Return how near to each other the tasks of a job are to be placed."""
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
    """One toleration in its stored form, which is that of Kubernetes."""
    effect = item.get("effect")
    return em.Toleration(
        key=item.get("key", ""),
        operator=em.TolerationOperator(item.get("operator", "Equal")),
        value=item.get("value", ""),
        effect=em.TaintEffect(effect) if effect else None,
    )
