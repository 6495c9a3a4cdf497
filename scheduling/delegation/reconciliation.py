"""Reconciles the platform's jobs with the workloads of a cluster's own engine, in both directions.

Each reconciliation takes one step for each job, chosen from its state and the workload's verdict only. If a
step is lost, the next reconciliation takes it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction

from clusters.backends.base import OutcomeKind, PodOutcome
from clusters.backends.delegation import Delegate, DelegatedWorkload, VerdictKind, WorkloadVerdict
from clusters.models import Cell, Cluster
from foundation.core.reasons import Reason
from scheduling.commit.batch import write_decisions
from scheduling.commit.reasons import Wait, note_reason
from scheduling.delegation.platform_limits import Unwanted
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob, advance_job
from scheduling.models import Job, JobRole, JobState

log = structlog.get_logger(__name__)
LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
UNPLACED_S: Final = 120
"""The seconds for which an admitted job that can't be placed keeps its quota."""
REST_S: Final = 60
"""The seconds for which the job is paused afterwards, so that other jobs can use the quota."""
_SINCE: Final = "unseated_since"
_DETAIL_LENGTH: Final = 300


@dataclass(slots=True)
class Reconciliation:
    """One reconciliation of the jobs of a cluster. `admitted` are the jobs that are still to be placed."""

    cluster: Cluster
    delegate: Delegate
    now: datetime
    admitted: list[tuple[Job, Sequence[JobRole], WorkloadVerdict]] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    unknown: int = 0

    def reconcile_unqueued(self, job: Job, seen: WorkloadVerdict | None) -> None:
        """Take the step that a job which isn't queued needs."""
        if job.state in LIVE:
            self._keep(job, seen)
        elif job.state == JobState.SUSPENDED and seen is not None:
            self._idle(job, seen)

    def report_unplaced(self, job: Job, code: str, numbers: Mapping[str, int | str]) -> None:
        """Report why an admitted job can't be placed; after `UNPLACED_S`, pause it to free its quota."""
        since = int(job.reason_numbers.get(_SINCE, self.now.timestamp()))
        if job.backoff_until is not None:  # the time before the last pause does not count
            since = max(since, int(job.backoff_until.timestamp()))
        if self.now.timestamp() - since < UNPLACED_S:
            self.report_wait(job, code, **{**numbers, _SINCE: since})
            return
        until = self.now + timedelta(seconds=REST_S)
        facts = {"cluster": self.cluster.name, "waited_s": UNPLACED_S, "rest_s": REST_S}
        try:
            with transaction.atomic():
                advance_job(job, code="unseated", now=self.now, numbers=facts, backoff_until=until)
        except StaleJob:
            log.info("job moved on before its quota was given back", job=str(job.pk))

    def report_wait(self, job: Job, code: str, **numbers: Any) -> None:
        """Record why a job waits, if the reason has changed."""
        wait = Wait(job, code, {**numbers, "cluster": self.cluster.name}, [])
        if wait.is_news:
            self.waits.append(wait)

    def _keep(self, job: Job, seen: WorkloadVerdict | None) -> None:
        """Keep a running job while its workload is admitted; evict it if the workload is evicted or gone."""
        if seen is not None and seen.kind is VerdictKind.ADMITTED and seen.attempt == job.attempt_number:
            return
        rule = seen.code if seen is not None and seen.kind is VerdictKind.TERMINATING else "NOT_READY"
        numbers = {"cluster": self.cluster.name}
        if seen is None:
            numbers["message"] = "its workload is gone from the cluster"
        try:
            with transaction.atomic():
                begin_eviction(job=job, rule=rule, then=JobState.QUEUED, now=self.now, numbers=numbers)
        except StaleJob:
            log.info("job moved on before its eviction was noted", job=str(job.pk))

    def reconcile_queued(
        self,
        job: Job,
        roles: Sequence[JobRole],
        wanted: DelegatedWorkload | Unwanted,
        seen: WorkloadVerdict | None,
    ) -> None:
        """Take the step that a queued job needs."""
        if isinstance(wanted, Unwanted):
            self.report_wait(job, wanted.code, **wanted.numbers)
            if seen is not None:
                self._try(self.delegate.delete_workload(seen))
            return
        paused = job.backoff_until is not None and job.backoff_until > self.now
        if paused and job.backoff_until is not None and _SINCE not in job.reason_numbers:
            self.report_wait(job, Reason.BACKOFF, at=int(job.backoff_until.timestamp()) + 1)
        if seen is None:
            if not paused:
                self._ask(job, wanted)
        elif seen.kind is VerdictKind.ENDED or seen.shape != self.delegate.shape_of(wanted):
            self._try(self.delegate.delete_workload(seen))  # the next reconciliation creates it again
        elif seen.active == paused:
            self._try(self.delegate.set_paused(seen, paused=paused))
        elif seen.reserved and (paused or self._is_over(job, seen)):
            self._try(self.delegate.give_back(seen, attempt=wanted.attempt))
        elif seen.kind is VerdictKind.ADMITTED:
            self.admitted.append((job, roles, seen))
        elif not paused:
            self._say(job, seen)

    def _is_over(self, job: Job, seen: WorkloadVerdict) -> bool:
        """Return whether a workload holds quota for an attempt that ended or was evicted before it began."""
        return seen.kind is VerdictKind.TERMINATING or seen.attempt != job.attempt_number + 1

    def _idle(self, job: Job, seen: WorkloadVerdict) -> None:
        if seen.kind is VerdictKind.ENDED:
            self._try(self.delegate.delete_workload(seen))
        elif seen.active:
            self._try(self.delegate.set_paused(seen, paused=True))
        elif seen.reserved:
            self._try(self.delegate.give_back(seen, attempt=job.attempt_number + 1))

    def _ask(self, job: Job, wanted: DelegatedWorkload) -> None:
        outcome = self.delegate.create_workload(wanted)
        if outcome.kind is OutcomeKind.REFUSED:
            code = Reason.NEVER_FITS if outcome.code == Reason.NEVER_FITS else Reason.PENDING_EVALUATION
            self.report_wait(job, code, scheduler_message=outcome.message[:_DETAIL_LENGTH])
        else:
            self._try(outcome)

    def _say(self, job: Job, seen: WorkloadVerdict) -> None:
        if seen.code:
            self.report_wait(job, seen.code, **seen.numbers, scheduler_message=seen.detail[:_DETAIL_LENGTH])
        elif seen.detail:
            self.report_wait(job, Reason.WAITING_FOR_QUOTA, scheduler_message=seen.detail[:_DETAIL_LENGTH])
        else:
            # Kueue reports a reason only for the workloads that it evaluates, at the head of their queue.
            self.report_wait(
                job, Reason.BEHIND_HEAD if job.queue.strategy == "strict-fifo" else Reason.IN_LINE
            )

    def _try(self, outcome: PodOutcome) -> None:
        if outcome.kind is OutcomeKind.REFUSED:
            log.warning("refused", cluster=self.cluster.name, code=outcome.code, message=outcome.message)
        self.unknown += outcome.kind is OutcomeKind.UNKNOWN


def store_waits(cell_id: uuid.UUID, waits: Sequence[Wait], now: datetime) -> None:
    """Write the reasons of pending jobs in one transaction."""
    if not waits:
        return
    with transaction.atomic():
        cell = Cell.unscoped.select_for_update(no_key=True).get(pk=cell_id)
        decisions = [decision for wait in waits for decision in note_reason(cell, wait, now)]
        write_decisions(decisions)
