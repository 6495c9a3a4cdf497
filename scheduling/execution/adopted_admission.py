"""Records the admission of adopted pods: their quota, nodes and cards move from foreign pods to the job.

Rows are locked in the order that every change keeps: the cell and the job by the caller, then the ledger,
nodes and cards.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from clusters.backends.base import PodObservation, PodPhase
from clusters.gpu.named import counted_profile
from clusters.models import Cell, Cluster, Device, ForeignPod, Node
from clusters.services.foreign_sums import foreign_settle
from clusters.services.node_marks import nodes_changed
from foundation.messaging import outbox
from foundation.sql.bulk import update_rows
from quotas.models import QuotaKey
from quotas.selectors.limits.tree import load_tree
from quotas.services.ledger import ledger_lock
from scheduling import engine
from scheduling.commit import admission
from scheduling.commit.batch import CommitBatch, write_decisions, write_events
from scheduling.commit.limits import AdmissionLimits
from scheduling.engine import model as em
from scheduling.engine_input.jobs import engine_job
from scheduling.models import Allocation, GpuRequestMode, Job, JobRole
from scheduling.models.pod_names import pod_name
from scheduling.snapshots import CellSnapshot
from scheduling.snapshots.inventory import engine_flavors

_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
TaskKey = tuple[str, int]


class NotAdoptable(ValueError):
    """Pods with the labels of a job that do not match it; the message says why."""


@dataclass(frozen=True, slots=True)
class _AdoptedPod:
    """A pod of a task, on a known node. `held` has its amounts; None for a pod that has ended."""

    task: TaskKey
    role: JobRole
    pod: PodObservation
    node: Node
    held: ForeignPod | None


def admit_adopted(
    *, cell: Cell, cluster: Cluster, job: Job, number: int, pods: Sequence[PodObservation], now: datetime
) -> None:
    """Admit a queued job as its attempt `number`, with the nodes and amounts of `pods`.

    The caller has locked the cell and the job. Raises: NotAdoptable; NoLongerFree; IntegrityError.
    """
    roles = list(job.roles.all())
    found = _find(cluster, job, roles, number, pods)
    flavors = {flavor.id: flavor for flavor in engine_flavors(cell.pk)}
    requests = {role.name: role.request for role in engine_job(job, roles).roles}
    items = [_allocation(one, job, requests[one.role.name], flavors) for one in found]
    live = {one.task: item for one, item in zip(found, items, strict=True) if one.held is not None}
    decision = em.Decision(kind=em.DecisionKind.ADMIT, job=str(job.pk), allocations=tuple(live.values()))
    amounts = admission.amounts_of(decision)
    ledger_lock(QuotaKey.at_node(job.queue.node_id, key) for key in amounts)
    chosen, devices = _hand_over(cluster, [one for one in found if one.held is not None])
    parts = [replace(item, slices=chosen.get(task, ())) for task, item in live.items()]
    tree = load_tree(cell.pk)
    taken = CellSnapshot(engine.Snapshot(), {str(job.pk): job}, devices, {})
    batch = CommitBatch(cell, now, taken, tree, {str(job.pk): job}, AdmissionLimits((), now))
    decision = admission.with_loans(decision._replace(allocations=tuple(parts)), tree, str(job.queue.node_id))
    job.attempt_number = number - 1  # all attempts before it have ended
    tasks = admission.tasks_of([decision])
    admission.record_admission(batch, decision, tasks)
    batch.add_event(job, "adopted", {"attempt": number, "cluster": cluster.name, "tasks": len(found)})
    for one in found:
        if one.held is None:
            batch.bound.append(tasks[str(job.pk)][one.task])
    admission.write_admissions(batch, in_use=True)
    _note_pods(batch, job, found, items, tasks, now)
    write_events(batch.events)
    write_decisions(batch.decisions)
    nodes_changed(Node.unscoped.filter(pk__in={one.node.pk for one in found}))
    outbox.add_hint(outbox.Topic.CYCLE, cell.pk)


def _find(
    cluster: Cluster, job: Job, roles: Sequence[JobRole], number: int, pods: Sequence[PodObservation]
) -> list[_AdoptedPod]:
    """Return the task, the node and the amounts of each pod. Raises: NotAdoptable."""
    tasks = {
        pod_name(job, number, role.name, index): (role, index)
        for role in roles
        for index in range(role.replicas)
    }
    holds = {row.uid: row for row in _holds(cluster, pods)}
    where = {pod.ref.uid: holds[pod.ref.uid].node_name if pod.ref.uid in holds else pod.node for pod in pods}
    rows = Node.unscoped.filter(cluster=cluster, name__in=set(where.values()), present=True)
    nodes = {node.name: node for node in rows}
    found: list[_AdoptedPod] = []
    for pod in sorted(pods, key=lambda pod: pod.ref.name):
        task, node = tasks.get(pod.ref.name), nodes.get(where[pod.ref.uid])
        held = None if pod.phase in _ENDED else holds.get(pod.ref.uid)
        if task is None:
            raise NotAdoptable(f"no task of the job has a pod {pod.ref.name}")
        if node is None:
            raise NotAdoptable(f"node {where[pod.ref.uid] or '?'} of pod {pod.ref.name} is not known")
        if node.flavor_id is None:
            raise NotAdoptable(f"node {node.name} of pod {pod.ref.name} is in no flavor")
        if held is None and pod.phase not in _ENDED:
            raise NotAdoptable(f"what pod {pod.ref.name} holds is not known yet")
        found.append(_AdoptedPod((task[0].name, task[1]), task[0], pod, node, held))
    return found


def _holds(cluster: Cluster, pods: Sequence[PodObservation]) -> list[ForeignPod]:
    return list(ForeignPod.unscoped.filter(cluster=cluster, uid__in=[pod.ref.uid for pod in pods]))


def _allocation(
    one: _AdoptedPod, job: Job, request: em.Request, flavors: Mapping[str, em.Flavor]
) -> em.Allocation:
    """Return the allocation of a pod, charged as if the engine had placed it on its node; without cards,
    which are chosen later.

    Raises: NotAdoptable if it uses another number of cards than the task requests.
    """
    flavor = flavors[str(one.node.flavor_id)]
    if (held := one.held) is not None:
        cards = len(held.shares) if one.role.gpu_mode == GpuRequestMode.SLICE else sum(held.cards.values())
        if cards != one.role.gpu_cards:
            raise NotAdoptable(
                f"pod {one.pod.ref.name} holds {cards} GPUs, its task requests {one.role.gpu_cards}"
            )
        gpu = request.gpu
        if held.shares and gpu is not None:  # its GPU memory may have been resized while it ran
            _, cores, memory = held.shares[0]
            gpu = replace(gpu, cores=cores, memory=memory, memory_percent=None)
        request = replace(request, cpu=held.cpu_millicores, memory=held.memory_mib, gpu=gpu)
    charges = (
        em.Charge(flavor.id, what, amount) for what, amount in engine.compute_demand(request, flavor).items()
    )
    return em.Allocation(
        job=str(job.pk),
        queue=str(job.queue_id),
        role=one.task[0],
        index=one.task[1],
        flavor=flavor.id,
        node=str(one.node.pk),
        cpu=request.cpu,
        memory=request.memory,
        charges=tuple(charge for charge in charges if charge.amount),
    )


def _hand_over(
    cluster: Cluster, found: Sequence[_AdoptedPod]
) -> tuple[dict[TaskKey, tuple[em.DeviceSlice, ...]], dict[str, uuid.UUID]]:
    """Delete the rows that count the pods as foreign, and choose their cards; return the slices by task and
    the keys of the nodes' cards.

    Raises: NotAdoptable if a node has no such free card: then more is allocated there than it has.
    """
    ForeignPod.unscoped.filter(pk__in=[one.held.pk for one in found if one.held is not None]).delete()
    foreign_settle(cluster_id=cluster.pk, names={one.node.name for one in found})
    free: defaultdict[uuid.UUID, list[Device]] = defaultdict(list)
    keys: dict[str, uuid.UUID] = {}
    for device in Device.unscoped.filter(node__in=[one.node for one in found]).order_by("index", "uuid"):
        keys[device.uuid] = device.pk
        if not device.holders and not device.foreign_holders:
            free[device.node_id].append(device)
    return {one.task: _slices(one, free[one.node.pk], keys) for one in found}, keys


def _slices(
    one: _AdoptedPod, free: list[Device], keys: Mapping[str, uuid.UUID]
) -> tuple[em.DeviceSlice, ...]:
    held = one.held
    if held is None:
        return ()
    if lost := [card for card, *_ in held.shares if card not in keys]:
        raise NotAdoptable(f"GPU {lost[0]} of pod {one.pod.ref.name} is unknown")
    chosen = [em.DeviceSlice(card, cores, memory, False) for card, cores, memory in held.shares]
    for profile, count in sorted(held.cards.items()):
        fitting = [device for device in free if counted_profile(device.uuid) == profile][:count]
        if len(fitting) < count:
            raise NotAdoptable(f"node {one.node.name} has fewer free GPUs than pod {one.pod.ref.name} holds")
        for device in fitting:
            free.remove(device)
            chosen.append(em.DeviceSlice(device.uuid, device.cores_capacity, device.memory_capacity, True))
    return tuple(chosen)


def _note_pods(
    batch: CommitBatch,
    job: Job,
    found: Sequence[_AdoptedPod],
    items: Sequence[em.Allocation],
    tasks: admission.TaskIds,
    now: datetime,
) -> None:
    """Record the pod of each allocation, and add released allocations for the pods that have ended."""
    ((attempt, *_),) = batch.attempts
    of_names = {name: pk for pk, *_, name, _allocated_at in batch.allocations}
    made = [(of_names[one.pod.ref.name], now, one.pod.ref.uid) for one in found if one.held is not None]
    update_rows(Allocation, ("ensured_at", "pod_uid"), made)
    Allocation.unscoped.bulk_create(
        Allocation(
            attempt_id=attempt,
            task_id=tasks[str(job.pk)][one.task],
            node=one.node,
            flavor_id=uuid.UUID(item.flavor),
            cpu_millicores=item.cpu,
            memory_mib=item.memory,
            charge={charge.resource: charge.amount for charge in item.charges},
            namespace=one.pod.ref.namespace,
            pod_name=one.pod.ref.name,
            pod_uid=one.pod.ref.uid,
            ensured_at=now,
            released_at=now,
        )
        for one, item in zip(found, items, strict=True)
        if one.held is None
    )
