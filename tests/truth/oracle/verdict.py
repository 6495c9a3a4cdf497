"""Checks the report for a pending job: its reason, and each number beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from scheduling.engine.model import JobOutcome, JobState, Reason, StopPolicy, Strategy
from tests.truth.oracle.cell import Cell
from tests.truth.oracle.facts import Lack, lacks
from tests.truth.oracle.limit_reasons import check_limit, check_policy
from tests.truth.oracle.node_reasons import check_never_fits, check_no_room
from tests.truth.oracle.queue_reasons import (
    blockers,
    check_backoff,
    check_behind,
    check_position,
    check_reserved,
    guards,
)
from tests.truth.oracle.quota_reasons import check_quota
from tests.truth.oracle.reported import Fault, ReportedReason
from tests.truth.oracle.volume_reasons import check_claims, reasons_by_claim

REASON_OF_LACK: Mapping[Lack, Reason] = {
    Lack.NOTHING: Reason.RESERVED_FOR_LARGER,
    Lack.ROOM: Reason.NO_ROOM,
    Lack.BORROWED: Reason.WAITING_FOR_BORROWED,
    Lack.QUOTA: Reason.WAITING_FOR_QUOTA,
    Lack.POLICY: Reason.POLICY_DENIED,
    Lack.LIMIT: Reason.EXCEEDS_MAX_QUOTA,
    Lack.NODES: Reason.NEVER_FITS,
}


def find_faults(cell: Cell, outcome: JobOutcome) -> list[Fault]:
    """Return all faults in the report for a pending job.

    Raises: Undecided, if exhaustive search would take too long.
    """
    report = ReportedReason(cell, outcome)
    actual = {name for reason in true_reasons(report) for name in reasons_by_claim(report, reason)}
    if report.reason not in actual:
        return [report.fault("reason", report.reason.value, " or ".join(sorted(actual)))]
    return list(_CHECKS.get(report.reason, _check_nothing)(report))


def true_reasons(report: ReportedReason) -> set[Reason]:
    """Return the true reasons of a job; several only if later decisions about others select one of them."""
    facts = report.facts
    if facts.lack in (Lack.NODES, Lack.LIMIT):
        return {REASON_OF_LACK[facts.lack]}
    if facts.lack is Lack.POLICY:
        # A job whose turn has not come need not be checked for what is not allowed in one flavor and too much
        # in all others.
        each = {way.lack for way in facts.ways} - {Lack.NODES}
        return {Reason.POLICY_DENIED, *(_reasons_before_the_turn(report) if each != {Lack.POLICY} else set())}
    return _reasons_before_the_turn(report) or _reasons_of_lack(report)


def _reasons_before_the_turn(report: ReportedReason) -> set[Reason]:
    """Return why the turn of a job does not come; none if it does."""
    cell, job, queue = report.cell, report.job, report.facts.queue
    if queue.stop_policy is not StopPolicy.NONE:
        return {Reason.QUEUE_STOPPED}
    if job.state is JobState.SUSPENDED:
        return {Reason.SUSPENDED}
    resting = job.backoff_until is not None and job.backoff_until > cell.now
    if queue.strategy is Strategy.STRICT_FIFO and blockers(cell, job, resting=False):
        return {Reason.BEHIND_HEAD}
    return {Reason.BACKOFF} if resting else set()


def _reasons_of_lack(report: ReportedReason) -> set[Reason]:
    """Return what a job lacks whose turn came."""
    cell, job, facts = report.cell, report.job, report.facts
    if facts.lack is Lack.NOTHING and len(job.roles) == 1:
        return {Reason.RESERVED_FOR_LARGER}
    found = {
        *(REASON_OF_LACK[lack] for lack in lacks(facts)),
        *({Reason.PROTECTED} if guards(cell, job) else set()),
    }
    return found | ({Reason.RESERVED_FOR_LARGER} if _is_held_back(report) else set())


def _is_held_back(report: ReportedReason) -> bool:
    """Return whether a job that could preempt reports to wait behind a job of its queue that has waited so
    long that capacity is reserved for it."""
    other = report.cell.jobs.get(str(report.numbers.get("job")))
    if other is None or other.queue != report.job.queue or other.state is not JobState.QUEUED:
        return False
    waits = other.submitted_at if other.evicted_at is None else other.evicted_at
    since = waits + report.cell.rules.hold_after_s
    return since <= report.cell.now and report.numbers.get("since", int(since)) == int(since)


def _check_nothing(report: ReportedReason) -> Iterator[Fault]:
    yield from ()


def _check_protected(report: ReportedReason) -> Iterator[Fault]:
    ends = guards(report.cell, report.job)
    if report.numbers.get("until") not in ends:
        yield report.fault("until", report.numbers.get("until"), sorted(ends))
    yield from check_no_room(report) if report.facts.lack is Lack.ROOM else check_quota(report)


_CHECKS: Mapping[Reason, Callable[[ReportedReason], Iterator[Fault]]] = {
    Reason.NEVER_FITS: check_never_fits,
    Reason.EXCEEDS_MAX_QUOTA: check_limit,
    Reason.POLICY_DENIED: check_policy,
    Reason.QUEUE_STOPPED: check_position,
    Reason.SUSPENDED: check_position,
    Reason.BEHIND_HEAD: check_behind,
    Reason.WAITING_FOR_QUOTA: check_quota,
    Reason.WAITING_FOR_BORROWED: check_quota,
    Reason.NO_ROOM: check_no_room,
    Reason.PROTECTED: _check_protected,
    Reason.BACKOFF: check_backoff,
    Reason.RESERVED_FOR_LARGER: check_reserved,
    Reason.VOLUME_NODE_CONFLICT: check_claims,
    Reason.VOLUME_NODES_TOO_SMALL: check_claims,
    Reason.VOLUME_CLAIM_NOT_BOUND: check_claims,
    Reason.VOLUME_CLAIM_UNREAD: check_claims,
}
