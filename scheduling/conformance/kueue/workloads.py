"""Workloads as jobs, and reserved ones as what they hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.fields import Fields
from scheduling.conformance.kueue import quantities
from scheduling.conformance.kueue.podsets import PODS, Amounts, footprint, pod_requests, role
from scheduling.conformance.kueue.topology_aware import DomainAllocation, DomainTasks
from scheduling.conformance.kueue.topology_objects import placement
from scheduling.conformance.kueue.transformations import Transformation, transformed
from scheduling.engine.model import Allocation, Charge, Instant, Job, JobState, Queue, Role

BOOST = "kueue.x-k8s.io/priority-boost"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
ZERO_TIME = Instant(0.0)
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Switches of the scheduler whose objects are read; the defaults are Kueue's.

    `eviction_timestamp`: after a time-out of its pods a workload lines up where it was evicted, not
    where it was created. `borrowing_preempted_last`: one that was preempted by a borrower lines up
    where that happened.
    """

    now: Instant = ZERO_TIME
    reclaimable_pods: bool = True
    partial_admission: bool = True
    priority_boost: bool = False
    eviction_timestamp: bool = True
    borrowing_preempted_last: bool = False
    transformations: tuple[Transformation, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One PodSet as the scheduler counts it now: its pods, and what they ask for together.

    `flavors` are those of an existing admission, by resource.
    """

    name: str
    count: int
    total: Amounts
    flavors: Mapping[str, str]


class Workload:
    """One Workload object; every answer is read from it when asked."""

    def __init__(self, source: Fields, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        metadata = source.part("metadata")
        self.namespace = metadata.text("namespace")
        self.name = metadata.text("name")
        self.id = f"{self.namespace}/{self.name}"
        self.uid = metadata.text("uid")
        self.local_queue = source.part("spec").text("queueName")
        self.replaces = metadata.pairs("annotations").get(REPLACES)
        self._admission = source.part("status", "admission")

    @property
    def active(self) -> bool:
        """Whether its owner wants it to run."""
        return self._source.part("spec").flag("active", True)

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.condition("Finished") is not None

    @property
    def reserved_in(self) -> str | None:
        """The ClusterQueue whose quota it holds."""
        reserved = [c for c in self._conditions() if c.text("type") == "QuotaReserved"]
        lost = bool(reserved) and reserved[-1].text("status") != "True"
        return None if lost or not self._admission.value else self._admission.text("clusterQueue")

    def condition(self, kind: str) -> Fields | None:
        """A condition that is true now."""
        for entry in self._conditions():
            if entry.text("type") == kind and entry.text("status") == "True":
                return entry
        return None

    def parts(self) -> tuple[Part, ...]:
        """Its PodSets as the scheduler counts them.

        An export may carry the totals; otherwise they follow from the pod templates.
        """
        given = {entry.text("name"): entry for entry in self._source.parts("x-totalRequests")}
        found = (
            self._exported(podset, given[podset.text("name")])
            if podset.text("name") in given
            else self._derived(podset)
            for podset in self._podsets()
        )
        rules = self._reading.transformations
        return tuple(replace(part, total=transformed(part.total, rules)) for part in found)

    def job(self, queue: Queue, state: JobState) -> Job:
        """The job as the engine sees it in a queue."""
        status = self._source.part("status")
        reserved = self.condition("QuotaReserved")
        retry = status.part("requeueState")
        return Job(
            id=self.id,
            queue=queue.id,
            user=f"{self.namespace}/{self.local_queue}",
            roles=tuple(self._roles(queue)),
            submitted_at=self._lined_up_at(),
            priority=self._priority(),
            state=state,
            admitted_at=None if reserved is None else moment(reserved, "lastTransitionTime"),
            backoff_until=moment(retry, "requeueAt") if "requeueAt" in retry else None,
        )

    def allocations(self, queue: str, aware: Collection[str], *, leaving: bool) -> Iterator[Allocation]:
        """What each of its PodSets holds of the queue's quota, summed over the pods, and in which domains
        of the topology-`aware` flavors they run."""
        for podset, part in zip(self._podsets(), self.parts(), strict=True):
            flavors = {**part.flavors}
            chosen = [flavors[name] for name in sorted(flavors)]
            chosen = [name for name in chosen if name in aware] or chosen
            standing = placement(self._assigned(part.name).value.get("topologyAssignment"))
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
                domains=tuple(DomainTasks(s.domain, s.tasks) for s in standing.shares) if standing else (),
                each=footprint(pod_requests(podset.part("template", "spec"))),
            )

    def _roles(self, queue: Queue) -> Iterator[Role]:
        pods_count = any(PODS in group.resources for group in queue.resource_groups)
        for podset, part in zip(self._podsets(), self.parts(), strict=True):
            each = self._each(podset, part)
            yield role(
                podset,
                {PODS: 1, **each} if pods_count else each,
                ended=self._ended(part.name),
                elastic=self._reading.partial_admission,
            )

    def _each(self, podset: Fields, part: Part) -> Amounts:
        """What one pod asks for: totals shared out, rounded up."""
        own = {name: total for name, total in part.total.items() if name != PODS}
        if not part.count:
            return pod_requests(podset.part("template", "spec"))
        return {name: -(-total // part.count) for name, total in own.items()}

    def _podsets(self) -> tuple[Fields, ...]:
        return self._source.part("spec").parts("podSets")

    def _exported(self, podset: Fields, given: Fields) -> Part:
        requests = given.part("requests")
        totals = {name: requests.number(name) for name in requests.value}
        flavors = given.pairs("flavors") or self._assigned(podset.text("name")).pairs("flavors")
        return Part(podset.text("name"), given.number("count"), totals, flavors)

    def _derived(self, podset: Fields) -> Part:
        name = podset.text("name")
        assigned = self._assigned(name)
        size = assigned.number("count", podset.number("count"))
        count = max(0, size - self._ended(name))
        each = pod_requests(podset.part("template", "spec"))
        totals = {key: quantities.saturated(number * count) for key, number in each.items()}
        usage = assigned.part("resourceUsage")
        if PODS in usage:
            totals[PODS] = count
        return Part(name, count, totals, assigned.pairs("flavors"))

    def _assigned(self, name: str) -> Fields:
        for entry in self._admission.parts("podSetAssignments"):
            if entry.text("name") == name:
                return entry
        return Fields({}, self._admission.where)

    def _ended(self, name: str) -> int:
        if not self._reading.reclaimable_pods:
            return 0
        entries = self._source.part("status").parts("reclaimablePods")
        return sum(entry.number("count") for entry in entries if entry.text("name") == name)

    def _priority(self) -> int:
        own = self._source.part("spec").number("priority")
        if not self._reading.priority_boost:
            return own
        # Whoever writes a boost that is no number gets none: the annotation is not validated.
        boost = self._source.part("metadata", "annotations").text(BOOST)
        return own + int(boost) if _WHOLE.fullmatch(boost) else own

    def _lined_up_at(self) -> Instant:
        evicted, preempted = self.condition("Evicted"), self.condition("Preempted")
        reason = "" if evicted is None else evicted.text("reason")
        late = self._reading.eviction_timestamp and reason == "PodsReadyTimeout"
        if evicted is not None and (late or reason == "AdmissionCheck"):
            return moment(evicted, "lastTransitionTime")
        by_borrower = preempted is not None and preempted.text("reason") == "InCohortReclaimWhileBorrowing"
        if preempted is not None and by_borrower and self._reading.borrowing_preempted_last:
            return Instant(moment(preempted, "lastTransitionTime") + 0.001)
        return moment(self._source.part("metadata"), "creationTimestamp")

    def _conditions(self) -> tuple[Fields, ...]:
        return self._source.part("status").parts("conditions")


def moment(source: Fields, key: str) -> Instant:
    """A time in RFC 3339; an absent one is the zero time."""
    text = source.text(key)
    if not text:
        return ZERO_TIME
    try:
        return Instant(datetime.fromisoformat(text).timestamp())
    except ValueError as error:
        raise ObjectError(source.at(key), f"{text!r} is not a time") from error
