"""Previews which existing jobs a changed policy of a tenant would not allow. Writes nothing.

A policy applies at submission, and jobs that were submitted before stay. But the idle timeout also applies to
running jobs, and the pod start timeout to jobs whose pods start.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F

from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Invalid
from quotas.hooks.job_effects import AffectedJob
from quotas.services.quota_preview import VisibleJobs, name_visible
from scheduling.job_file import parse_job, to_mapping
from scheduling.models import HOLDING_STATES, WAITING_STATES, IdleStretch, Job, WorkspacePolicy
from scheduling.policy import EffectivePolicy, combine_policies, find_violations
from scheduling.policy.stating import PolicyStatement, check_statement
from scheduling.selectors.allocations.idle import find_idle_stretches
from scheduling.selectors.policies.workspace_policy import path_policies
from scheduling.services.start_limit import find_unstarted
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_NONE: Final = VisibleJobs((), 0)
JOBS_MAX: Final = 1000
"""The maximum number of jobs that are examined: running ones first, then those of the highest priority."""


@dataclass(frozen=True, slots=True)
class TenantPolicyPreview:
    """The jobs that the current policy allows and the new one doesn't.

    `idle` are running jobs that have been idle for longer than the new timeout, but not than the current one.
    `slow` have a pod that has been starting for longer than the new timeout, but not than the current one.
    `left_out` is how many jobs were not examined. `changes`: the new policy differs from the current one.
    """

    changes: bool
    pending: VisibleJobs = _NONE
    running: VisibleJobs = _NONE
    idle: VisibleJobs = _NONE
    slow: VisibleJobs = _NONE
    left_out: int = 0

    @property
    def has_jobs(self) -> bool:
        return any(found.jobs or found.others for found in (self.pending, self.running, self.idle, self.slow))


def preview_tenant_policy(
    *, acting_user: Actor, tenant: Tenant, statement: PolicyStatement
) -> TenantPolicyPreview:
    """Compare the jobs at and below a tenant with its current policy and with a new one.

    Raises: NotFound, PermissionDenied, Invalid as `policy_set`.
    """
    permissions.require_permission(acting_user, Permission.POLICY_EDIT, tenant)
    above = [policy for policy in path_policies(tenant) if policy.tenant_id != tenant.pk]
    check_statement(statement, tenant, above)
    wanted = WorkspacePolicy(tenant=tenant, **statement.stored_values())
    present = WorkspacePolicy.unscoped.filter(tenant=tenant).first() or WorkspacePolicy(tenant=tenant)
    if all(getattr(present, name) == value for name, value in statement.stored_values().items()):
        return TenantPolicyPreview(changes=False)
    jobs, left_out = _read_jobs(tenant)
    policies = _compare_policies({job.workspace for job in jobs}, wanted)
    refused = [job for job in jobs if _is_refused(job, *policies[job.workspace])]
    stretches, now = find_idle_stretches(jobs), clock.now()
    idle = [
        job
        for job in jobs
        if (found := stretches.get(job.pk)) and _is_idle_too_long(found, *policies[job.workspace], now)
    ]
    starting = find_unstarted([job for job in jobs if job.state in HOLDING_STATES], now)
    slow = [
        job
        for job in jobs
        if (since := starting.get(job.pk)) and _starts_too_long(now - since, *policies[job.workspace])
    ]
    visible: set[uuid.UUID] = set(
        permissions.tenants_with(acting_user, Permission.JOB_VIEW).values_list("pk", flat=True)
    )
    return TenantPolicyPreview(
        changes=True,
        pending=name_visible(_affected([job for job in refused if job.is_waiting]), visible),
        running=name_visible(_affected([job for job in refused if not job.is_waiting]), visible),
        idle=name_visible(_affected(idle), visible),
        slow=name_visible(_affected(slow), visible),
        left_out=left_out,
    )


def _read_jobs(tenant: Tenant) -> tuple[Sequence[Job], int]:
    """Return the unfinished jobs at and below a tenant, and how many more there are."""
    jobs = Job.unscoped.filter(
        workspace__path__startswith=tenant.path, state__in=(*WAITING_STATES, *HOLDING_STATES)
    )
    found = jobs.select_related("workspace", "queue", "priority_class").prefetch_related("roles")
    read = list(
        found.order_by(F("admitted_at").asc(nulls_last=True), "-priority", "submitted_at", "pk")[:JOBS_MAX]
    )
    return read, jobs.count() - len(read) if len(read) == JOBS_MAX else 0


def _compare_policies(
    workspaces: Collection[Tenant], wanted: WorkspacePolicy
) -> Mapping[Tenant, tuple[EffectivePolicy, EffectivePolicy]]:
    """Return the current policy of each workspace, and the one that it would have."""
    above = {uuid.UUID(pk) for place in workspaces for pk in place.ancestor_ids()}
    rows = WorkspacePolicy.unscoped.filter(tenant__in=above).select_related("tenant")
    present = {str(row.tenant_id): row for row in rows}
    changed = present | {str(wanted.tenant_id): wanted}
    return {
        place: (
            combine_policies([present[pk] for pk in place.ancestor_ids() if pk in present]),
            combine_policies([changed[pk] for pk in place.ancestor_ids() if pk in changed]),
        )
        for place in workspaces
    }


def _is_refused(job: Job, before: EffectivePolicy, after: EffectivePolicy) -> bool:
    if all(
        getattr(before, name) == getattr(after, name) for name in ("minimum", "maximum", "images", "allowed")
    ):
        return False
    try:
        spec = parse_job(to_mapping(job))
    except Invalid:
        return False  # an older version accepted the job file, and this version would refuse it anyway
    allowed = {(error.field, error.code) for error in find_violations(spec, before)}
    return any((error.field, error.code) not in allowed for error in find_violations(spec, after))


def _is_idle_too_long(
    stretch: IdleStretch, before: EffectivePolicy, after: EffectivePolicy, now: datetime
) -> bool:
    idle = now - stretch.since

    def exceeds(policy: EffectivePolicy) -> bool:
        limit = policy.idle_timeout_s
        return limit is not None and idle > timedelta(seconds=limit.amount)

    return exceeds(after) and not exceeds(before)


def _starts_too_long(waited: timedelta, before: EffectivePolicy, after: EffectivePolicy) -> bool:
    def exceeds(policy: EffectivePolicy) -> bool:
        return policy.start_within_s is not None and waited >= timedelta(seconds=policy.start_within_s)

    return exceeds(after) and not exceeds(before)


def _affected(jobs: Sequence[Job]) -> list[AffectedJob]:
    return [
        AffectedJob(
            job.pk,
            job.name,
            job.workspace_id,
            job.queue.name,
            sum(role.replicas * role.gpu_cards for role in job.roles.all()),
        )
        for job in sorted(jobs, key=lambda job: (job.name, str(job.pk)))
    ]
