"""Handles jobs whose GPUs are idle: records measurements, warns owners, and takes the policy's action.

Only the times in rows decide when something is done. If measurements stop, rows become stale and no action is
taken; if they resume after a gap, the idle time starts again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import F, Q

from foundation.audit import audit_log
from foundation.core.actor import SYSTEM
from foundation.messaging import outbox
from scheduling.lifecycle.job_lifecycle import begin_eviction
from scheduling.lifecycle.transitions import StaleJob, advance_job
from scheduling.models import IdleAction, IdleStretch, Job, JobState
from scheduling.policy import EffectivePolicy, combine_policies
from scheduling.selectors.policies.workspace_policy import path_policies
from scheduling.snapshots.delegated import read_delegated

log = structlog.get_logger(__name__)
MAX_GAP: Final = timedelta(seconds=90)
"""The longest gap between measurements; after a longer one the idle time of a job starts again."""


@dataclass(frozen=True, slots=True)
class UseReport:
    """The latest measurement of all GPUs of a job: `idle` from `first_at` to `last_at`, or in use."""

    idle: bool
    first_at: datetime
    last_at: datetime


def record_use(reports: Mapping[uuid.UUID, UseReport], *, now: datetime) -> None:
    """Begin, extend and end the idle times of running jobs. The idle time of a job without a report stays."""
    jobs = Job.unscoped.filter(pk__in=list(reports), state=JobState.RUNNING).select_related("workspace")
    known = {row.job_id: row for row in IdleStretch.unscoped.filter(job__in=list(reports))}
    policies: dict[uuid.UUID, EffectivePolicy] = {}
    for job in jobs.order_by("pk"):
        report, stretch = reports[job.pk], known.get(job.pk)
        if not report.idle:
            if stretch is not None:
                _end_stretch(stretch, job, now)
            continue
        if job.workspace_id not in policies:
            policies[job.workspace_id] = combine_policies(path_policies(job.workspace))
        rule = _rule_fields(policies[job.workspace_id])
        if stretch is not None and _continues(stretch, job, report):
            _extend_stretch(stretch, report, rule)
        else:
            if stretch is not None:
                _end_stretch(stretch, job, now)
            _begin_stretch(job, report, rule)


def _rule_fields(policy: EffectivePolicy) -> dict[str, Any]:
    limit = policy.idle_timeout_s
    return {
        "limit_s": None if limit is None else limit.amount,
        "action": policy.idle_action,
        "warn_s": policy.idle_warn_s,
    }


def _continues(stretch: IdleStretch, job: Job, report: UseReport) -> bool:
    same_run = stretch.attempt_number == job.attempt_number
    return same_run and report.first_at <= stretch.seen_at + MAX_GAP


def _begin_stretch(job: Job, report: UseReport, rule: Mapping[str, Any]) -> None:
    IdleStretch.unscoped.get_or_create(
        job=job,
        defaults={
            "attempt_number": job.attempt_number,
            "since": report.first_at,
            "seen_at": report.last_at,
            **rule,
        },
    )


def _extend_stretch(stretch: IdleStretch, report: UseReport, rule: Mapping[str, Any]) -> None:
    """Record the latest measurement, and the current idle rule of the policy."""
    fields: dict[str, Any] = {**rule, "seen_at": max(stretch.seen_at, report.last_at)}
    if rule["limit_s"] is None:
        fields["warned_at"] = None
    IdleStretch.unscoped.filter(pk=stretch.pk).update(**fields)


def _end_stretch(stretch: IdleStretch, job: Job, now: datetime) -> None:
    """Delete an idle time; the version of a job that was warned increases, because its state has changed."""
    try:
        with transaction.atomic():
            if stretch.warned_at is not None and job.state == JobState.RUNNING:
                advance_job(job, code="idle_ended", now=now)
            IdleStretch.unscoped.filter(pk=stretch.pk).delete()
    except StaleJob:
        log.info("job changed while its idle time ended", job=str(job.pk))


def enforce_idle_rules(now: datetime) -> None:
    """Warn owners of idle jobs and take actions that are due, by rows only. The sweep calls it."""
    ended = ~Q(job__state=JobState.RUNNING) | ~Q(attempt_number=F("job__attempt_number"))
    IdleStretch.unscoped.filter(ended).delete()
    limited = IdleStretch.unscoped.filter(limit_s__isnull=False, acted_at__isnull=True)
    for row in limited.select_related("job__queue").order_by("job_id"):
        try:
            with transaction.atomic():
                if row.needs_warning(now):
                    _warn(row, now)
                elif row.is_due(now):
                    _act(row, now)
        except StaleJob:
            log.info("job moved on before its idle rule", job=str(row.job_id))


def _warn(row: IdleStretch, now: datetime) -> None:
    row.warned_at = now
    left = row.act_at - now if row.act_at else timedelta()
    advance_job(
        row.job,
        code="idle_warned",
        now=now,
        numbers={
            "action": row.action,
            "idle_s": int((now - row.since).total_seconds()),
            "left_s": int(left.total_seconds()),
        },
    )
    IdleStretch.unscoped.filter(pk=row.pk).update(warned_at=now, notified_at=None)


def _act(row: IdleStretch, now: datetime) -> None:
    """Take the policy's action. If the platform's engine schedules the job, a cycle decides its eviction."""
    job = row.job
    numbers = {"idle_s": int((now - row.since).total_seconds()), "limit_s": row.limit_s}
    if row.action == IdleAction.PREEMPTIBLE:
        advance_job(job, code="idle_preemptible", now=now, numbers=numbers)
        IdleStretch.unscoped.filter(pk=row.pk).update(acted_at=now)
        _record(job, "job.idle-preemptible", numbers)
    elif job.queue_id in read_delegated(job.queue.cell_id).queues:
        begin_eviction(job=job, rule="IDLE", then=JobState.SUSPENDED, now=now, numbers=numbers)
        IdleStretch.unscoped.filter(pk=row.pk).update(acted_at=now)
        _record(job, "job.evict", {"rule": "IDLE", **numbers})
    outbox.add_hint(outbox.Topic.CYCLE, job.queue.cell_id)


def _record(job: Job, action: str, facts: Mapping[str, Any]) -> None:
    audit_log.record_action(
        SYSTEM,
        action,
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        after={"name": job.name, **facts},
    )
