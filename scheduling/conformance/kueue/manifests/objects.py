"""Reads a Kueue set-up as parts of a snapshot, with the reasons why objects are not used.

The input is a mapping of lists of v1beta2 objects (`clusterQueues`, `cohorts`, `resourceFlavors`,
`topologies`, `localQueues`, `namespaces`, `workloads`, `admissionChecks`) in their JSON form. If a list is
absent, references to its objects do not count as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.manifests import quantities, queues
from scheduling.conformance.kueue.manifests.podsets import OPERATORS
from scheduling.conformance.kueue.manifests.workloads import KueueWorkload, WorkloadReading
from scheduling.conformance.labels import match_labels
from scheduling.engine import Snapshot
from scheduling.engine.model import (
    Allocation,
    Charge,
    Flavor,
    FlavorResource,
    Job,
    JobState,
    Node,
    Queue,
    QuotaNode,
    ResourceAmount,
    StopPolicy,
    UserUsage,
)

Objects = Mapping[str, Any]
Used = Mapping[FlavorResource, int]


class Aside(StrEnum):
    """The reason why a workload is not evaluated."""

    FINISHED = "finished"
    DEACTIVATED = "deactivated"
    NO_LOCAL_QUEUE = "no-local-queue"
    NO_CLUSTER_QUEUE = "no-cluster-queue"
    LOCAL_QUEUE_STOPPED = "local-queue-stopped"
    CLUSTER_QUEUE_INACTIVE = "cluster-queue-inactive"
    NAMESPACE_MISMATCH = "namespace-mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The objects that were read.

    `inactive` has the reason of each ClusterQueue that admits nothing; its queue is on hold. `aside` has the
    reason of each workload that is not evaluated: workloads without a queue and finished ones are not in
    `jobs`; the others are, suspended. `uids` break ties. `replaces` has the job that an enlarged workload
    replaces. The workloads of ClusterQueues in `elsewhere` run in other clusters, which place them.
    `on_order` has the flavors of each queue whose nodes are provisioned once a job holds quota.
    """

    flavors: tuple[Flavor, ...]
    quota_nodes: tuple[QuotaNode, ...]
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]
    allocations: tuple[Allocation, ...]
    usage: tuple[UserUsage, ...]
    inactive: Mapping[str, str] = field(default_factory=dict)
    aside: Mapping[str, Aside] = field(default_factory=dict)
    uids: Mapping[str, str] = field(default_factory=dict)
    replaces: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    on_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def get_queue(self, name: str) -> Queue:
        """Return the queue of a ClusterQueue."""
        return next(queue for queue in self.queues if queue.id == name)

    def get_job(self, key: str) -> Job:
        """Return the job of a workload, by `namespace/name`."""
        return next(job for job in self.jobs if job.id == key)

    def build_snapshot(
        self, *, nodes: Iterable[Node] = (), used: Mapping[str, Used] | None = None
    ) -> Snapshot:
        """Return a snapshot of the set-up; `used` is additional usage of each ClusterQueue's quota."""
        held: dict[str, list[Charge]] = {}
        for allocation in self.allocations:
            held.setdefault(allocation.queue, []).extend(allocation.charges)
        for name, amounts in (used or {}).items():
            charges = (Charge(key.flavor, key.resource, amount) for key, amount in amounts.items())
            held.setdefault(name, []).extend(charges)
        return Snapshot(
            nodes=nodes,
            flavors=self.flavors,
            quota_nodes=(_with_usage(node, held.get(node.id, ())) for node in self.quota_nodes),
            queues=self.queues,
            jobs=self.jobs,
            allocations=self.allocations,
            usage=self.usage,
        )


def read_setup(objects: Objects, reading: WorkloadReading | None = None) -> Setup:
    """Read a set-up.

    Raises:
        ObjectError: if an object cannot be read; the message names kind, object and field.
    """
    return _ObjectReader(objects, reading or WorkloadReading()).build_setup()


def build_pending_job(value: Mapping[str, Any], queue: Queue, reading: WorkloadReading | None = None) -> Job:
    """Return a Workload object as a queued job of a queue, regardless of its LocalQueue.

    Raises:
        ObjectError: if a field cannot be read; the message names it.
    """
    name = CaseFields(value, "Workload:").read_object("metadata").read_text("name")
    source = CaseFields(value, f"Workload {name}:" if name else "Workload:")
    return KueueWorkload(source, reading or WorkloadReading()).build_job(queue, JobState.QUEUED)


def flavor_resource(key: str) -> FlavorResource:
    """Return the pair of `flavor/resource`; names of resources may contain slashes."""
    name, _, resource = key.partition("/")
    return FlavorResource(name, resource)


class _ObjectReader:
    """Reads the objects of one set-up."""

    def __init__(self, objects: Objects, reading: WorkloadReading) -> None:
        self._objects = objects
        self._reading = reading
        sources = self._all("clusterQueues", "ClusterQueue")
        self._cluster_queues = {
            source.read_object("metadata").read_text("name"): source for source in sources
        }
        self._local_queues = {
            (
                source.read_object("metadata").read_text("namespace"),
                source.read_object("metadata").read_text("name"),
            ): source
            for source in self._all("localQueues", "LocalQueue")
        }
        self._namespaces = {
            source.read_object("metadata").read_text("name") or source.read_text("name"): source
            for source in self._all("namespaces", "Namespace")
        }
        self._jobs: list[Job] = []
        self._allocations: list[Allocation] = []
        self._aside: dict[str, Aside] = {}
        cohorts = (queues.read_cohort(source) for source in self._all("cohorts", "Cohort"))
        leaves = (queues.read_leaf(source) for source in self._cluster_queues.values())
        self._tree = queues.complete_tree((*cohorts, *leaves))
        self._controllers = {
            source.read_object("metadata").read_text("name"): source.read_object("spec").read_text(
                "controllerName"
            )
            for source in self._all("admissionChecks", "AdmissionCheck")
        }
        self._flavors = self._read_flavors()
        self._inactive = self._find_inactive()
        self._queues = {name: self._queue(name) for name in self._cluster_queues}

    def build_setup(self) -> Setup:
        workloads = [KueueWorkload(source, self._reading) for source in self._all("workloads", "Workload")]
        for workload in workloads:
            self._take(workload)
        return Setup(
            flavors=self._flavors,
            quota_nodes=self._tree.nodes,
            queues=tuple(self._queues.values()),
            jobs=tuple(self._jobs),
            allocations=tuple(self._allocations),
            usage=tuple(self._usage()),
            inactive=self._inactive,
            aside=self._aside,
            uids={workload.id: workload.uid for workload in workloads},
            replaces={workload.id: workload.replaces for workload in workloads if workload.replaces},
            on_order={
                name: queues.on_order(source, self._controllers)
                for name, source in self._cluster_queues.items()
            },
            elsewhere=frozenset(
                name
                for name, source in self._cluster_queues.items()
                if queues.runs_elsewhere(source, self._controllers)
            ),
        )

    def _all(self, key: str, kind: str) -> list[CaseFields]:
        found = []
        for index, value in enumerate(self._objects.get(key) or ()):
            if value is None:
                continue
            if not isinstance(value, Mapping):
                raise ObjectError(f"{key}[{index}]", f"{value!r} is not an object")
            metadata = value.get("metadata") or value
            name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
            found.append(CaseFields(value, f"{kind} {name or index}:"))
        return found

    def _names(self, key: str, kind: str) -> set[str] | None:
        if key not in self._objects:
            return None
        return {source.read_object("metadata").read_text("name") for source in self._all(key, kind)}

    # Queues

    def _read_flavors(self) -> tuple[Flavor, ...]:
        levels = {
            source.read_object("metadata").read_text("name"): tuple(
                level.read_text("nodeLabel") for level in source.read_object("spec").read_objects("levels")
            )
            for source in self._all("topologies", "Topology")
        }
        sources = self._all("resourceFlavors", "ResourceFlavor")
        return tuple(queues.read_flavor(source, levels) for source in sources)

    def _find_inactive(self) -> dict[str, str]:
        known = queues.Known(
            flavors=self._names("resourceFlavors", "ResourceFlavor"),
            topologies=self._names("topologies", "Topology"),
            checks=self._active_checks(),
            cyclic=self._tree.cyclic,
        )
        topology_of = {
            source.read_object("metadata").read_text("name"): source.read_object("spec").read_text(
                "topologyName"
            )
            for source in self._all("resourceFlavors", "ResourceFlavor")
        }
        by_id = {node.id: node for node in self._tree.nodes}
        why = {
            name: queues.find_inactive_reason(source, by_id[name], topology_of, known)
            for name, source in self._cluster_queues.items()
        }
        return {name: reason for name, reason in why.items() if reason is not None}

    def _active_checks(self) -> set[str] | None:
        if "admissionChecks" not in self._objects:
            return None
        return {
            source.read_object("metadata").read_text("name")
            for source in self._all("admissionChecks", "AdmissionCheck")
            if any(
                condition.read_text("type") == "Active" and condition.read_text("status") == "True"
                for condition in source.read_object("status").read_objects("conditions")
            )
        }

    def _queue(self, name: str) -> Queue:
        queue = queues.read_queue(self._cluster_queues[name])
        if name in self._inactive and queue.stop_policy is StopPolicy.NONE:
            return replace(queue, stop_policy=StopPolicy.HOLD)
        return queue

    # Workloads

    def _take(self, workload: KueueWorkload) -> None:
        if workload.finished:
            self._aside[workload.id] = Aside.FINISHED
            return
        reserved = workload.reserved_in
        if reserved is not None:
            self._take_reserved(workload, reserved)
            return
        local = self._local_queues.get((workload.namespace, workload.local_queue))
        if local is None:
            self._aside[workload.id] = Aside.NO_LOCAL_QUEUE
            return
        queue = self._queues.get(local.read_object("spec").read_text("clusterQueue"))
        if queue is None:
            self._aside[workload.id] = Aside.NO_CLUSTER_QUEUE
            return
        aside = self._barred(workload, local, queue)
        if aside is not None:
            self._aside[workload.id] = aside
        state = JobState.QUEUED if aside is None else JobState.SUSPENDED
        self._jobs.append(workload.build_job(queue, state))

    def _take_reserved(self, workload: KueueWorkload, reserved: str) -> None:
        queue = self._queues.get(reserved)
        if queue is None:
            self._aside[workload.id] = Aside.NO_CLUSTER_QUEUE
            return
        leaving = workload.find_condition("Evicted") is not None
        self._jobs.append(workload.build_job(queue, JobState.LEAVING if leaving else JobState.LIVE))
        aware = {flavor.id for flavor in self._flavors if flavor.topology_aware}
        self._allocations.extend(workload.build_allocations(queue.id, aware, leaving=leaving))

    def _barred(self, workload: KueueWorkload, local: CaseFields, queue: Queue) -> Aside | None:
        if not workload.active:
            return Aside.DEACTIVATED
        if local.read_object("spec").read_text("stopPolicy", "None") != "None":
            return Aside.LOCAL_QUEUE_STOPPED
        if queue.id in self._inactive:
            return Aside.CLUSTER_QUEUE_INACTIVE
        if not self._admits(self._cluster_queues[queue.id].read_object("spec"), workload.namespace):
            return Aside.NAMESPACE_MISMATCH
        return None

    def _admits(self, spec: CaseFields, namespace: str) -> bool:
        """Return whether the namespace selector admits a namespace: a missing one admits none, an empty one
        all."""
        if "namespaceSelector" not in spec:
            return False
        source = self._namespaces.get(namespace, CaseFields({}, f"Namespace {namespace}:"))
        labels = source.read_object("metadata").read_labels("labels") or source.read_labels("labels")
        return match_labels(labels, spec.read_object("namespaceSelector"), OPERATORS)

    def _usage(self) -> Iterable[UserUsage]:
        for (namespace, name), source in self._local_queues.items():
            sharing = source.read_object("status", "fairSharing", "admissionFairSharingStatus")
            weight = source.read_object("spec", "fairSharing")
            consumed = sharing.read_object("consumedResources")
            yield UserUsage(
                queue=source.read_object("spec").read_text("clusterQueue"),
                user=f"{namespace}/{name}",
                at=self._reading.now,
                consumed=tuple(
                    ResourceAmount(
                        resource, float(quantities.parse_amount(consumed.value[resource], resource))
                    )
                    for resource in sorted(consumed.value)
                ),
                weight_milli=queues.read_weight(weight),
            )


def _with_usage(node: QuotaNode, charges: Iterable[Charge]) -> QuotaNode:
    total: dict[FlavorResource, int] = {}
    for charge in charges:
        total[charge.key] = total.get(charge.key, 0) + charge.amount
    return replace(node, usage=tuple(Charge(k.flavor, k.resource, total[k]) for k in sorted(total)))
