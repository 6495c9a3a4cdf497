"""Creates and removes pods, many in one transaction, because every commit waits for the disk."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

from django.db.models import BigIntegerField, Case, ExpressionWrapper, F, Q, Value, When
from django.db.models.expressions import Combinable

from clusters.backends.base import DeviceGrant, PodOutcome, TaskRef, TaskSpec
from clusters.backends.simulated import chance, life
from clusters.backends.simulated.admission import CardUse, Kubelet, Rejection
from clusters.backends.simulated.script import Script
from clusters.backends.simulated.state import ClusterState, lock_state
from clusters.models import SimulatedDevice, SimulatedNode, SimulatedPhase, SimulatedPod
from foundation.sql.bulk import insert_rows
from foundation.sql.prepared import PreparedQuery

NODE_LOST: Final = "NodeLost"
_CHUNK: Final = 500  # names in one query: SQLite bounds the parameters of a statement
_PENDING_MS: Final = (200, 1000)
_START_MS: Final = (1000, 6000)
_LEAST_REST_MS: Final = 60_000
_LIVE: Final = ~Q(phase=SimulatedPhase.REMOVED)

_NAMED: Final = PreparedQuery(
    lambda names, simulation: SimulatedPod.unscoped.filter(
        _LIVE, simulation=simulation, name__any_of=names
    ).only("id", "namespace", "name", "uid", "labels")
)
_NODES: Final = PreparedQuery(
    lambda names, simulation: SimulatedNode.unscoped.filter(simulation=simulation, name__any_of=names)
)
_CARDS: Final[PreparedQuery[Any]] = PreparedQuery(
    lambda names, simulation: SimulatedDevice.unscoped.filter(
        node__simulation=simulation, node__name__any_of=names
    ).annotate(node_name=F("node__name"))
)
_HOLDERS: Final = PreparedQuery(
    lambda names, simulation: SimulatedPod.unscoped.filter(
        simulation=simulation, holds=True, node_name__any_of=names
    ).values_list("node_name", "cpu_millicores", "memory_mib", "devices", "resize_mib")
)

T = TypeVar("T")
Key = tuple[str, str]  # namespace, name


def ensure_many(cluster_id: uuid.UUID, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
    """Create the pods that do not exist, each after its kubelet's checks; one outcome per spec."""
    if not specs:
        return []
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        known = {(pod.namespace, pod.name): pod for pod in _existing(moment, [spec.ref for spec in specs])}
        kubelets = _kubelets(moment, sorted({spec.node for spec in specs}))
        created: list[SimulatedPod] = []
        outcomes = [_ensure(moment, spec, known, kubelets, created) for spec in specs]
        insert_rows(created)
    return outcomes


def remove_many(cluster_id: uuid.UUID, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
    """Start the termination of the pods; they hold their cards until they are gone. Absent ones are done."""
    if not refs:
        return []
    with lock_state(cluster_id) as moment:
        life.advance_locked(moment)
        known = {(pod.namespace, pod.name): pod for pod in _existing(moment, refs)}
        targets = [known.get((ref.namespace, ref.name)) for ref in refs]
        # Another uid under this name is a successor: the requested pod is already absent.
        meant = [
            pod if pod and ref.uid in ("", pod.uid) else None for ref, pod in zip(refs, targets, strict=True)
        ]
        ids = sorted({pod.id for pod in meant if pod is not None})
        for chunk in _chunks(ids):
            _terminate(moment, SimulatedPod.unscoped.filter(id__in=chunk), max(grace_s, 0))
        life.advance_locked(moment)  # without a grace period they are gone at once
    return [PodOutcome.of_success(pod.uid if pod else "") for pod in meant]


def start_earlier(cluster_id: uuid.UUID, started: Mapping[str, datetime]) -> None:
    """Set the start of pods, by their uid, to an earlier time: for a cluster with a past.

    A pod whose run time would already be over runs for another minute.
    """
    with lock_state(cluster_id) as moment:
        change, speed = moment.next_change(), moment.timeline.speed
        pods = list(SimulatedPod.unscoped.filter(simulation=moment.row, holds=True, uid__in=started))
        for pod in pods:
            # The clock began with the cluster: earlier times are below zero.
            ran_ms = int((moment.at - started[pod.uid]).total_seconds() * 1000 * speed)
            pod.phase, pod.started_ms = SimulatedPhase.RUNNING, moment.sim_ms - ran_ms
            pod.begun_ms = pod.started_ms - pod.start_ms
            pod.changed_ms, pod.change = pod.started_ms, change
            if pod.run_ms is not None:
                pod.run_ms = max(pod.run_ms, ran_ms + _LEAST_REST_MS)
                pod.next_ms = pod.started_ms + pod.run_ms
        SimulatedPod.unscoped.bulk_update(
            pods, ["phase", "started_ms", "begun_ms", "changed_ms", "change", "run_ms", "next_ms"]
        )


def _terminate(moment: ClusterState, pods: life.Pods, grace_s: int) -> None:
    down = SimulatedNode.unscoped.filter(simulation=moment.row, failed=True).values("name")
    lost = pods.filter(holds=True, node_name__in=down)
    if lost.exists():
        # Their kubelet does not answer. The removal includes the fencing of the node, after which its
        # containers are known to be dead.
        message = "The node stopped reporting; the pod was failed when it was removed"
        life.fail_pods(lost, moment, moment.next_change(), reason=NODE_LOST, message=message)
    leaving = _leaving_ms(moment.sim_ms, grace_s)
    longer = Q(next_ms=None) | Q(next_ms__gt=leaving)  # a second call may shorten the grace, never extend it
    pods.filter(longer, terminating=True).update(next_ms=leaving)
    pods.filter(terminating=False).update(next_ms=leaving, terminating=True)


def _leaving_ms(now_ms: int, grace_s: int) -> Combinable:
    """Return when a pod is removed: with containers after a part of its grace period but not after its own
    end, while it waits after a second, and after its end at once.
    """
    quick = Value(now_ms + 1000 * min(grace_s, 1))
    over = Q(phase__in=[SimulatedPhase.SUCCEEDED, SimulatedPhase.FAILED]) & ~Q(reason=NODE_LOST)
    ended = When(over, then=Value(now_ms))
    if grace_s <= 1:
        return Case(ended, default=quick, output_field=BigIntegerField())
    within_grace = ExpressionWrapper(
        Value(now_ms + 1000) + F("leave_permille") * Value(grace_s - 1), output_field=BigIntegerField()
    )
    done = When(phase=SimulatedPhase.RUNNING, next_ms__lt=within_grace, then=F("next_ms"))
    with_containers = When(phase__in=[SimulatedPhase.STARTING, SimulatedPhase.RUNNING], then=within_grace)
    return Case(ended, done, with_containers, default=quick, output_field=BigIntegerField())


def _ensure(
    moment: ClusterState,
    spec: TaskSpec,
    known: dict[Key, SimulatedPod],
    kubelets: dict[str, Kubelet],
    created: list[SimulatedPod],
) -> PodOutcome:
    key = (spec.ref.namespace, spec.ref.name)
    if (present := known.get(key)) is not None:
        if present.labels == dict(spec.labels):
            return PodOutcome.of_success(present.uid)
        return PodOutcome.of_refusal("NAME_TAKEN", f"a pod {key[0]}/{key[1]} with other labels exists")
    try:
        script = Script.read_simulate(spec.simulate)
    except ValueError as error:
        return PodOutcome.of_refusal("INVALID", str(error))
    kubelet = kubelets.get(spec.node) or Kubelet(spec.node, ready=False, cpu_millicores=0, memory_mib=0)
    pod = _pod(moment, spec, script, kubelet.admit_pod(spec))
    known[key] = pod
    created.append(pod)
    return PodOutcome.of_success(pod.uid)


def _pod(moment: ClusterState, spec: TaskSpec, script: Script, rejection: Rejection | None) -> SimulatedPod:
    change, now_ms, name = moment.next_change(), moment.sim_ms, spec.ref.name
    pending_ms, start_ms = _delays(name, script)
    uid = uuid.uuid5(moment.row.id, f"{spec.ref.namespace}/{name}/{change}")
    pod = SimulatedPod(
        simulation=moment.row,
        namespace=spec.ref.namespace,
        name=name,
        uid=str(uid),
        node_name=spec.node,
        cpu_millicores=spec.cpu_millicores,
        memory_mib=spec.memory_mib,
        devices=[[grant.uuid, grant.cores, grant.memory_mib] for grant in spec.devices],
        labels=dict(spec.labels),
        image=spec.image[:500],  # only shown in the log
        command=list(spec.command),
        start_ms=start_ms,
        run_ms=script.run_ms,
        leave_permille=int(chance.random_between(0, 1000, name, "leave")),
        utilisation=script.utilisation,
        exit_code=script.exit_code,
        phase=SimulatedPhase.PENDING,
        next_ms=now_ms + pending_ms,
        begun_ms=now_ms,
        changed_ms=now_ms,
        change=change,
    )
    if rejection is not None:
        pod.phase, pod.holds, pod.next_ms, pod.ended_ms = SimulatedPhase.FAILED, False, None, now_ms
        pod.reason, pod.message = rejection.reason, rejection.message[:300]
    return pod


def _delays(name: str, script: Script) -> tuple[int, int]:
    """Return the simulated milliseconds for which a pod is pending, and then starting."""
    if script.start_ms is not None:
        return 0, script.start_ms
    return int(chance.random_between(*_PENDING_MS, name, "pending")), int(
        chance.random_between(*_START_MS, name, "start")
    )


def _existing(moment: ClusterState, refs: Sequence[TaskRef]) -> Iterator[SimulatedPod]:
    wanted = {(ref.namespace, ref.name) for ref in refs}
    for chunk in _chunks(sorted({name for _, name in wanted})):
        for pod in _NAMED.for_any(chunk, moment.row.pk):
            if (pod.namespace, pod.name) in wanted:
                yield pod


def _kubelets(moment: ClusterState, names: Sequence[str]) -> dict[str, Kubelet]:
    """Return the named nodes with everything that is held on them."""
    kubelets: dict[str, Kubelet] = {}
    for chunk in _chunks(names):
        for node in _NODES.for_any(chunk, moment.row.pk):
            kubelets[node.name] = Kubelet(node.name, not node.failed, node.cpu_millicores, node.memory_mib)
        for device in _CARDS.for_any(chunk, moment.row.pk):
            kubelets[device.node_name].cards[device.uuid] = CardUse(device)
        for name, cpu, memory, devices, resize_mib in _HOLDERS.for_any(chunk, moment.row.pk):
            if (kubelet := kubelets.get(name)) is not None:
                kubelet.reserve_resources(cpu, memory, at_most(read_grants(devices), resize_mib))
    return kubelets


def read_grants(devices: Iterable[tuple[str, int, int]]) -> list[DeviceGrant]:
    """Read the `devices` column of a pod."""
    return [DeviceGrant(card, cores, memory_mib) for card, cores, memory_mib in devices]


def at_most(held: Sequence[DeviceGrant], resize_mib: int | None) -> list[DeviceGrant]:
    """Return the most that a pod may use of its cards while their memory is being changed."""
    return [replace(grant, memory_mib=max(grant.memory_mib, resize_mib or 0)) for grant in held]


def kubelet_of(moment: ClusterState, node: str) -> Kubelet | None:
    """Return a node with everything that is held on it."""
    return _kubelets(moment, [node]).get(node)


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
