"""Rows and inventory in, engine snapshot out.

The snapshot is built from a fixed number of queries, whatever the size of the cell, and remembers the
version of each job it read, so that the commit can tell which of them have moved on since.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from clusters.models import Device, Flavor, GpuMode, Node
from foundation import clock, row_scope
from foundation.quantities import Resource
from quotas.models import AllocationMode, Queue, QueueFlavor
from quotas.selectors.tree import tree_rows
from scheduling import engine
from scheduling.allowances import Allowances
from scheduling.engine import model as em
from scheduling.engine_config import engine_config
from scheduling.engine_jobs import Past, engine_job, placement_rules, toleration, watched_workspaces
from scheduling.models import HOLDING_STATES, Allocation, DeviceSlice, Job, JobRole, JobState
from scheduling.standing import claims_of, pasts_of, places_of_movers, usage_of
from tenants.models import Tenant

# What a cycle looks at: jobs that wait for it, and those that hold what others wait for.
_SEEN: Final = (JobState.QUEUED, *HOLDING_STATES)


@dataclass(frozen=True, slots=True)
class CellSnapshot:
    """An engine snapshot with what is needed to write its decisions back."""

    snapshot: engine.Snapshot
    jobs: Mapping[str, Job]
    devices: Mapping[str, uuid.UUID]
    # Names of flavors, nodes and queues by id: the engine speaks in ids, people read names.
    names: Mapping[str, str]


@row_scope.whole()
def cell_snapshot(cell_id: uuid.UUID) -> CellSnapshot:
    """Read everything one cycle of a cell needs."""
    jobs = list(
        Job.unscoped.filter(queue__cell_id=cell_id, state__in=_SEEN)
        .select_related("queue", "workspace")
        .order_by("submitted_at", "id")
    )
    devices = _devices(Device.unscoped.filter(node__cluster__cell_id=cell_id, node__present=True))
    queues = engine_queues(cell_id)  # before the tree: a queue opened meanwhile must not lack its node
    watched = watched_workspaces((job.workspace_id, job.placement) for job in jobs)
    claims = claims_of(cell_id)
    # What is used is read before who holds it: what is given back meanwhile then still counts as used.
    quota_nodes = engine_quota_nodes(cell_id)
    seen = _limited(cell_id, _jobs(cell_id, jobs, watched, frozenset(claims)), jobs)
    nodes, flavors = _nodes(cell_id, devices), engine_flavors(cell_id)
    snapshot = engine.Snapshot(
        nodes=nodes,
        flavors=flavors,
        quota_nodes=quota_nodes,
        queues=queues,
        jobs=_below_cap(seen, queues, quota_nodes, _most_cards(nodes, flavors)),
        allocations=_allocations(cell_id, watched),
        claims=claims.values(),
        usage=usage_of(cell_id),
    )
    for place in places_of_movers(snapshot):
        snapshot.take(place)
    pks = {device.uuid: device.pk for rows in devices.values() for device in rows}
    return CellSnapshot(snapshot, {str(job.pk): job for job in jobs}, pks, names_in(cell_id))


def with_names(numbers: em.Numbers, names: Mapping[str, str]) -> dict[str, int | str]:
    """Numbers of an outcome with ids replaced by names: the engine speaks in ids, people read names."""
    return {key: names.get(item, item) if isinstance(item, str) else item for key, item in numbers.items()}


@row_scope.whole()
def names_in(cell_id: uuid.UUID) -> dict[str, str]:
    """Names of flavors, queues and nodes of a cell by id."""
    flavors = Flavor.unscoped.filter(cluster__cell_id=cell_id).values_list("id", "name")
    queues = Queue.unscoped.filter(cell_id=cell_id).values_list("id", "name")
    nodes = Node.unscoped.filter(cluster__cell_id=cell_id).values_list("id", "name")
    return {str(pk): name for rows in (flavors, queues, nodes) for pk, name in rows}


@row_scope.whole()
def empty_snapshot(cell_id: uuid.UUID) -> engine.Snapshot:
    """Nodes, flavors and queues of a cell without jobs: what could fit, not what does."""
    devices = _devices(Device.unscoped.filter(node__cluster__cell_id=cell_id, node__present=True))
    queues = engine_queues(cell_id)  # before the tree, as above
    return engine.Snapshot(
        nodes=_nodes(cell_id, devices),
        flavors=engine_flavors(cell_id),
        quota_nodes=engine_quota_nodes(cell_id),
        queues=queues,
    )


def _devices(rows: Any) -> dict[uuid.UUID, list[Device]]:
    by_node: defaultdict[uuid.UUID, list[Device]] = defaultdict(list)
    for device in rows.order_by("node_id", "index", "uuid"):
        by_node[device.node_id].append(device)
    return dict(by_node)


def _nodes(cell_id: uuid.UUID, devices: Mapping[uuid.UUID, Sequence[Device]]) -> list[em.Node]:
    rows = Node.unscoped.filter(cluster__cell_id=cell_id, present=True).order_by("cluster_id", "name")
    return [_node(node, devices.get(node.pk, ()), rank) for rank, node in enumerate(rows)]


def _node(node: Node, devices: Sequence[Device], rank: int) -> em.Node:
    return em.Node(
        id=str(node.pk),
        cluster=str(node.cluster_id),
        name=node.name,
        labels=node.labels,
        taints=tuple(_taint(taint) for taint in node.taints),
        ready=node.ready,
        schedulable=not node.cordoned,
        cpu=node.cpu_millicores,
        memory=node.memory_mib,
        used_cpu=node.cpu_granted,
        used_memory=node.memory_granted,
        devices=tuple(_device(device) for device in devices),
        rank=rank,
    )


def _device(device: Device) -> em.Device:
    whole = device.holders == 1 and device.cores_granted >= device.cores_capacity
    return em.Device(
        uuid=device.uuid,
        index=device.index,
        model=device.model,
        mode=em.GpuMode(device.mode),
        healthy=device.healthy,
        cores=device.cores_capacity,
        memory=device.memory_capacity,
        used_cores=device.cores_granted,
        used_memory=device.memory_granted,
        holders=device.holders,
        exclusive=whole,
    )


def _taint(taint: Mapping[str, str]) -> em.Taint:
    return em.Taint(taint["key"], taint.get("value", ""), em.TaintEffect(taint.get("effect", "NoSchedule")))


def engine_flavors(cell_id: uuid.UUID) -> list[em.Flavor]:
    """The flavors of a cell."""
    rows = Flavor.unscoped.filter(cluster__cell_id=cell_id).order_by("id")
    return [
        em.Flavor(
            id=str(flavor.pk),
            cluster=str(flavor.cluster_id),
            node_labels=flavor.node_selector,
            taints=tuple(_taint(taint) for taint in flavor.taints),
            tolerations=tuple(toleration(item) for item in flavor.tolerations),
            card_model=flavor.card_model,
            card_memory=flavor.card_memory_mib,
            mode=em.GpuMode.WHOLE if flavor.gpu_mode == GpuMode.NONE else em.GpuMode(flavor.gpu_mode),
            policy=flavor.placement,
        )
        for flavor in rows
    ]


def engine_quota_nodes(cell_id: uuid.UUID) -> list[em.QuotaNode]:
    """The quota tree of a cell with its usage."""
    rows = tree_rows(cell_id)
    return [
        em.QuotaNode(
            id=str(node.pk),
            parent=str(node.parent_id) if node.parent_id else None,
            quotas=tuple(
                em.Quota(
                    flavor=str(q.flavor_id),
                    resource=Resource(q.resource),
                    nominal=q.nominal,
                    borrowing_limit=q.borrowing_limit,
                    lending_limit=q.lending_limit,
                )
                for q in rows.quotas.get(node.pk, ())
            ),
            usage=tuple(
                em.Charge(str(entry.flavor_id), Resource(entry.resource), entry.used)
                for entry in rows.used.get(node.pk, ())
            ),
            weight_milli=node.weight,
        )
        for node in rows.nodes
    ]


def engine_queues(cell_id: uuid.UUID) -> list[em.Queue]:
    """The queues of a cell with their flavors in order."""
    queues = list(Queue.unscoped.filter(cell_id=cell_id).order_by("id"))
    flavors: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for row in QueueFlavor.unscoped.filter(queue__cell_id=cell_id).order_by("queue_id", "position"):
        flavors[row.queue_id].append(str(row.flavor_id))
    return [
        em.Queue(
            id=str(queue.pk),
            quota_node=str(queue.node_id),
            flavors=tuple(flavors[queue.pk]),
            strategy=em.Strategy(queue.strategy),
            stop_policy=em.StopPolicy(queue.stop_policy),
            allocation_mode=em.AllocationMode(AllocationMode(queue.allocation_mode).value),
            preemption=_preemption(queue),
            fungibility=em.Fungibility(
                when_can_borrow=em.WhenCan(queue.when_can_borrow),
                when_can_preempt=em.WhenCan(queue.when_can_preempt),
                preference=em.Preference(queue.preference),
            ),
            backfill=queue.backfill,
            user_shares=queue.user_shares,
        )
        for queue in queues
    ]


def _preemption(queue: Queue) -> em.PreemptionPolicy:
    if not queue.preemption:
        return em.PreemptionPolicy()
    return em.PreemptionPolicy(
        within_queue=em.PreemptWithin(queue.within_queue),
        reclaim=em.PreemptOthers(queue.reclaim),
        while_borrowing=em.PreemptOthers(queue.while_borrowing),
        max_priority=queue.max_priority,
    )


def _jobs(
    cell_id: uuid.UUID, jobs: Sequence[Job], watched: frozenset[uuid.UUID], promised: frozenset[str]
) -> list[em.Job]:
    roles: defaultdict[uuid.UUID, list[JobRole]] = defaultdict(list)
    seen = JobRole.unscoped.filter(job__queue__cell_id=cell_id, job__state__in=_SEEN)
    for role in seen.order_by("job_id", "position"):
        roles[role.job_id].append(role)
    pasts = pasts_of(cell_id, promised)
    # A job submitted between the two queries has roles but is not in `jobs`, one that ended is there
    # without any; the next cycle sees the one, and nobody has to see the other.
    return [
        engine_job(job, roles[job.pk], watched=watched, past=pasts.get(job.pk, Past()))
        for job in jobs
        if job.pk in roles
    ]


def _limited(cell_id: uuid.UUID, seen: list[em.Job], rows: Sequence[Job]) -> list[em.Job]:
    """The jobs with the limits of their users and what their tenants' budgets do not let start."""
    places = Tenant.unscoped.filter(queues__cell=cell_id).distinct()
    found = Allowances(places, now=clock.now())
    if not found.any:
        return seen
    by_id = {str(row.pk): row for row in rows}
    return [
        found.apply(job, workspace_id=by_id[job.id].workspace_id, user_id=by_id[job.id].submitted_by_id)
        for job in seen
    ]


def _most_cards(nodes: Sequence[em.Node], flavors: Sequence[em.Flavor]) -> dict[str, int]:
    """The cards of the largest node of each flavor."""
    return {
        flavor.id: max(
            (
                len(node.devices)
                for node in nodes
                if node.cluster == flavor.cluster and flavor.node_labels.items() <= node.labels.items()
            ),
            default=0,
        )
        for flavor in flavors
    }


def _below_cap(
    jobs: Sequence[em.Job],
    queues: Sequence[em.Queue],
    quota_nodes: Sequence[em.QuotaNode],
    most_cards: Mapping[str, int],
) -> list[em.Job]:
    """The jobs, those that their queue's own cards could never hold kept one eviction below the cap.

    At the cap a job starts inside the own nominal alone. One that can never fit there, on nodes that take
    its tasks, would wait for ever, in an empty cluster too: it goes on borrowing, and giving way.
    """
    cap = engine_config().preemption.eviction_cap
    by_node = {node.id: [q for q in node.quotas if q.resource == Resource.GPU_CARDS] for node in quota_nodes}
    own = {queue.id: by_node.get(queue.quota_node, []) for queue in queues}

    def stranded(job: em.Job) -> bool:
        cards = [(role.least, role.request.gpu.cards) for role in job.roles if role.request.gpu]
        asked = sum(tasks * each for tasks, each in cards)
        largest = max((each for _, each in cards), default=0)
        return not any(
            most_cards.get(quota.flavor, 0) >= largest and (quota.nominal is None or quota.nominal >= asked)
            for quota in own.get(job.queue, ())
        )

    return [
        replace(job, evictions=cap - 1) if job.evictions >= cap and stranded(job) else job for job in jobs
    ]


def _allocations(cell_id: uuid.UUID, watched: frozenset[uuid.UUID]) -> list[em.Allocation]:
    slices: defaultdict[uuid.UUID, list[em.DeviceSlice]] = defaultdict(list)
    live = {"released": False, "allocation__node__cluster__cell_id": cell_id}
    for part in DeviceSlice.unscoped.filter(**live).select_related("device").order_by("device__index", "id"):
        slices[part.allocation_id].append(
            em.DeviceSlice(part.device.uuid, part.cores, part.memory_mib, part.exclusive)
        )
    rows = (
        Allocation.unscoped.filter(node__cluster__cell_id=cell_id, released_at__isnull=True)
        .select_related("task__role", "attempt__job")
        .order_by("id")
    )
    return [_allocation(row, slices[row.pk], _met_as(row.attempt.job, watched)) for row in rows]


def _allocation(
    row: Allocation, slices: Sequence[em.DeviceSlice], rules: em.PlacementRules | None
) -> em.Allocation:
    flavor = str(row.flavor_id)
    return em.Allocation(
        job=str(row.attempt.job_id),
        queue=str(row.attempt.job.queue_id),
        role=row.task.role.name,
        index=row.task.index,
        flavor=flavor,
        node=str(row.node_id),
        cpu=row.cpu_millicores,
        memory=row.memory_mib,
        slices=tuple(slices),
        charges=tuple(em.Charge(flavor, Resource(name), n) for name, n in sorted(row.charge.items())),
        # A task that is started again where it was is removed, and stays.
        leaving=row.removal_asked_at is not None and not row.restarting,
        rules=rules,
    )


def _met_as(job: Job, watched: frozenset[uuid.UUID]) -> em.PlacementRules | None:
    """What the tasks of a running job mean to others, where they may mean anything."""
    if job.workspace_id not in watched:
        return None
    return placement_rules(job.placement, namespace=str(job.workspace_id), group=str(job.pk))
