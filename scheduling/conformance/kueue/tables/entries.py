"""Checks Kueue's tables on the order of a cycle's entries (TestEntryOrdering, TestEntryComparerLess).

The engine breaks every tie by the job's id; the tables keep the given order of ties, so only the criteria are
used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from quotas.tree import DominantResourceShare
from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.manifests.objects import build_pending_job
from scheduling.conformance.kueue.manifests.workloads import KueueWorkload, WorkloadReading
from scheduling.engine import Candidate, EngineConfig, FairSharing, Order, candidate_key, cycle_order
from scheduling.engine.model import JobState, Queue

Case = Mapping[str, Any]

_QUEUE = Queue(id="queue", quota_node="queue")
_INFINITE = ("+Inf", "Inf", "Infinity", "inf")


def check_ordering(case: Case) -> str | None:
    """Check TestEntryOrdering: all entries in the order of processing."""
    given, gates = case["input"], case["gates"]
    named = given.get("workloadOrdering", {}).get("PodsReadyRequeuingTimestamp")
    reading = WorkloadReading(
        eviction_timestamp=named == "Eviction",
        borrowing_preempted_last=not gates.get("PrioritySortingWithinCohort", True),
    )
    chain = cycle_order(EngineConfig(cycle_order=ordering_criteria(gates)))
    candidates = [build_candidate(entry, reading) for entry in given["entries"]]
    ordered = [item.job.id.lstrip("/") for item in sorted(candidates, key=_before(chain))]
    expected = case["expected"]["order"]
    return None if ordered == expected else f"expected {expected}, got {ordered}"


def check_less(case: Case) -> str | None:
    """Check TestEntryComparerLess: whether one entry comes before another at one level of the tournament."""
    given, gates = case["input"], case["gates"]
    fair = FairSharing(prefer_non_borrowing=gates.get("FairSharingPrioritizeNonBorrowing", True))
    chain = cycle_order(EngineConfig(cycle_order=ordering_criteria(gates), fair_sharing=fair))
    shares = given.get("dominantResourceShareByWorkload", {})
    first, second = (_before(chain)(_contending(given[name], shares)) for name in ("a", "b"))
    found, expected = first < second, case["expected"]["less"]
    return None if found == expected else f"expected less to be {expected}, got {found}"


TABLES: Mapping[str, Callable[[Case], str | None]] = {
    "TestEntryOrdering": check_ordering,
    "TestEntryComparerLess": check_less,
}


def ordering_criteria(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return the criteria of the order across queues for the scheduler's feature gates."""
    chain = ["holding"]
    if gates.get("PrioritizePreemptorWorkloads", False):
        chain.append("preempting")
    chain.append("borrow-level")
    if gates.get("PrioritySortingWithinCohort", True):
        chain.append("priority")
    return (*chain, "submitted")


def _before(chain: Sequence[Order]) -> Callable[[Candidate], tuple[Any, ...]]:
    return lambda item: candidate_key(chain)(item)[:-1]


def build_candidate(entry: Mapping[str, Any], reading: WorkloadReading) -> Candidate:
    """Return an entry in the form in which the engine orders it."""
    workload = KueueWorkload(CaseFields(entry["workload"], "Workload:"), reading)
    holds = workload.find_condition("QuotaReserved") is not None
    job = replace(
        build_pending_job(entry["workload"], _QUEUE, reading),
        state=JobState.LIVE if holds else JobState.QUEUED,
        preempting=bool(entry.get("isPreemptor", False)),
    )
    return Candidate(job, entry.get("borrowing", 0))


def _contending(entry: Mapping[str, Any], shares: Mapping[str, Mapping[str, Any]]) -> Candidate:
    known = build_candidate(entry, WorkloadReading())
    given = shares.get(known.job.id, {})
    text = given.get("preciseWeightedShare", "0")
    ratio = Fraction(given.get("unweightedRatio", 1)) if text in _INFINITE else Fraction(text)
    share = DominantResourceShare(ratio.numerator, ratio.denominator, infinite=text in _INFINITE)
    return known._replace(borrows=given.get("borrowingOnRequested", False), share=share)
