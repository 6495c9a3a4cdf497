"""Converts Workloads to jobs, and those with reserved quota also to allocations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.podsets import (
    PODS,
    Amounts,
    build_footprint,
    build_role,
    pod_requests,
)
from scheduling.conformance.kueue.manifests.topology_objects import read_placement
from scheduling.conformance.kueue.manifests.transformations import Transformation, transform_amounts
from scheduling.conformance.kueue.topology_aware import DomainAllocation, DomainTasks
from scheduling.engine.model import Allocation, Charge, Instant, Job, JobState, Queue, Role

BOOST = "kueue.x-k8s.io/priority-boost"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
ZERO_TIME = Instant(0.0)
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReading:
    """The switches of the scheduler whose objects are read; the defaults are Kueue's.

    `eviction_timestamp`: a workload whose pods timed out is ordered by its eviction, not by its creation.
    `borrowing_preempted_last`: a workload that was preempted by a borrower is ordered by the preemption.
    """

    now: Instant = ZERO_TIME
    reclaimable_pods: bool = True
    partial_admission: bool = True
    priority_boost: bool = False
    eviction_timestamp: bool = True
    borrowing_preempted_last: bool = False
    transformations: tuple[Transformation, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSetPart:
    """One PodSet as the scheduler counts it: the number of its pods and the sum of their requests.

    `flavors` are those of an existing admission, by resource.
    """

    name: str
    count: int
    total: Amounts
    flavors: Mapping[str, str]


class KueueWorkload:
    """One Workload object, whose properties are read from it."""

    def __init__(self, source: CaseFields, reading: WorkloadReading) -> None:
        self._source = source
        self._reading = reading
        metadata = source.read_object("metadata")
        self.namespace = metadata.read_text("namespace")
        self.name = metadata.read_text("name")
        self.id = f"{self.namespace}/{self.name}"
        self.uid = metadata.read_text("uid")
        self.local_queue = source.read_object("spec").read_text("queueName")
        self.replaces = metadata.read_labels("annotations").get(REPLACES)
        self._admission = source.read_object("status", "admission")

    @property
    def active(self) -> bool:
        """True unless `spec.active` is false."""
        return self._source.read_object("spec").read_flag("active", True)

    @property
    def finished(self) -> bool:
        """True if the workload has the condition `Finished`."""
        return self.find_condition("Finished") is not None

    @property
    def reserved_in(self) -> str | None:
        """The ClusterQueue whose quota the workload holds; None if it holds none."""
        reserved = [c for c in self._conditions() if c.read_text("type") == "QuotaReserved"]
        lost = bool(reserved) and reserved[-1].read_text("status") != "True"
        return None if lost or not self._admission.value else self._admission.read_text("clusterQueue")

    def find_condition(self, kind: str) -> CaseFields | None:
        """Return the condition of a type if it is true, else None."""
        for entry in self._conditions():
            if entry.read_text("type") == kind and entry.read_text("status") == "True":
                return entry
        return None

    def pod_sets(self) -> tuple[PodSetPart, ...]:
        """Return the PodSets as the scheduler counts them.

        An export may have the totals; otherwise they are computed from the pod templates.
        """
        given = {entry.read_text("name"): entry for entry in self._source.read_objects("x-totalRequests")}
        found = (
            self._exported(podset, given[podset.read_text("name")])
            if podset.read_text("name") in given
            else self._derived(podset)
            for podset in self._podsets()
        )
        rules = self._reading.transformations
        return tuple(replace(part, total=transform_amounts(part.total, rules)) for part in found)

    def build_job(self, queue: Queue, state: JobState) -> Job:
        """Return the engine's job of the workload in a queue."""
        status = self._source.read_object("status")
        reserved = self.find_condition("QuotaReserved")
        retry = status.read_object("requeueState")
        return Job(
            id=self.id,
            queue=queue.id,
            user=f"{self.namespace}/{self.local_queue}",
            roles=tuple(self._roles(queue)),
            submitted_at=self._lined_up_at(),
            priority=self._priority(),
            state=state,
            admitted_at=None if reserved is None else parse_time(reserved, "lastTransitionTime"),
            backoff_until=parse_time(retry, "requeueAt") if "requeueAt" in retry else None,
        )

    def build_allocations(self, queue: str, aware: Collection[str], *, leaving: bool) -> Iterator[Allocation]:
        """Yield an allocation for each PodSet, with the quota of all its pods, and their domains in
        topology-`aware` flavors.
        """
        for podset, part in zip(self._podsets(), self.pod_sets(), strict=True):
            flavors = {**part.flavors}
            chosen = [flavors[name] for name in sorted(flavors)]
            chosen = [name for name in chosen if name in aware] or chosen
            placed = read_placement(self._assigned(part.name).value.get("topologyAssignment"))
            charges = (
                Charge(flavors[name], name, part.total[name]) for name in part.total if name in flavors
            )
            yield DomainAllocation(
                job=self.id,
                queue=queue,
                role=part.name,
                index=0,
                flavor=chosen[0] if chosen else "",
                node="",
                charges=tuple(sorted(charges)),
                leaving=leaving,
                domains=tuple(DomainTasks(s.domain, s.tasks) for s in placed.shares) if placed else (),
                each=build_footprint(pod_requests(podset.read_object("template", "spec"))),
            )

    def _roles(self, queue: Queue) -> Iterator[Role]:
        pods_count = any(PODS in group.resources for group in queue.resource_groups)
        for podset, part in zip(self._podsets(), self.pod_sets(), strict=True):
            each = self._each(podset, part)
            yield build_role(
                podset,
                {PODS: 1, **each} if pods_count else each,
                ended=self._ended(part.name),
                elastic=self._reading.partial_admission,
            )

    def _each(self, podset: CaseFields, part: PodSetPart) -> Amounts:
        """Return the request of one pod: the totals divided by the number of pods, rounded up."""
        own = {name: total for name, total in part.total.items() if name != PODS}
        if not part.count:
            return pod_requests(podset.read_object("template", "spec"))
        return {name: -(-total // part.count) for name, total in own.items()}

    def _podsets(self) -> tuple[CaseFields, ...]:
        return self._source.read_object("spec").read_objects("podSets")

    def _exported(self, podset: CaseFields, given: CaseFields) -> PodSetPart:
        requests = given.read_object("requests")
        totals = {name: requests.read_number(name) for name in requests.value}
        flavors = given.read_labels("flavors") or self._assigned(podset.read_text("name")).read_labels(
            "flavors"
        )
        return PodSetPart(podset.read_text("name"), given.read_number("count"), totals, flavors)

    def _derived(self, podset: CaseFields) -> PodSetPart:
        name = podset.read_text("name")
        assigned = self._assigned(name)
        size = assigned.read_number("count", podset.read_number("count"))
        count = max(0, size - self._ended(name))
        each = pod_requests(podset.read_object("template", "spec"))
        totals = {key: quantities.cap_amount(number * count) for key, number in each.items()}
        usage = assigned.read_object("resourceUsage")
        if PODS in usage:
            totals[PODS] = count
        return PodSetPart(name, count, totals, assigned.read_labels("flavors"))

    def _assigned(self, name: str) -> CaseFields:
        for entry in self._admission.read_objects("podSetAssignments"):
            if entry.read_text("name") == name:
                return entry
        return CaseFields({}, self._admission.where)

    def _ended(self, name: str) -> int:
        if not self._reading.reclaimable_pods:
            return 0
        entries = self._source.read_object("status").read_objects("reclaimablePods")
        return sum(entry.read_number("count") for entry in entries if entry.read_text("name") == name)

    def _priority(self) -> int:
        own = self._source.read_object("spec").read_number("priority")
        if not self._reading.priority_boost:
            return own
        # The annotation is not validated; a value that isn't a number is ignored.
        boost = self._source.read_object("metadata", "annotations").read_text(BOOST)
        return own + int(boost) if _WHOLE.fullmatch(boost) else own

    def _lined_up_at(self) -> Instant:
        evicted, preempted = self.find_condition("Evicted"), self.find_condition("Preempted")
        reason = "" if evicted is None else evicted.read_text("reason")
        late = self._reading.eviction_timestamp and reason == "PodsReadyTimeout"
        if evicted is not None and (late or reason == "AdmissionCheck"):
            return parse_time(evicted, "lastTransitionTime")
        by_borrower = (
            preempted is not None and preempted.read_text("reason") == "InCohortReclaimWhileBorrowing"
        )
        if preempted is not None and by_borrower and self._reading.borrowing_preempted_last:
            return Instant(parse_time(preempted, "lastTransitionTime") + 0.001)
        return parse_time(self._source.read_object("metadata"), "creationTimestamp")

    def _conditions(self) -> tuple[CaseFields, ...]:
        return self._source.read_object("status").read_objects("conditions")


def parse_time(source: CaseFields, key: str) -> Instant:
    """Return a time in RFC 3339; a missing one is the zero time."""
    text = source.read_text(key)
    if not text:
        return ZERO_TIME
    try:
        return Instant(datetime.fromisoformat(text).timestamp())
    except ValueError as error:
        raise ObjectError(source.path_of(key), f"{text!r} is not a time") from error
