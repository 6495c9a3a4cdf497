"""The jobs for which a job was preempted, as far as the reader may see them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from foundation.core.actor import Actor
from foundation.sql import row_scope
from scheduling.models import Decision, DecisionKind, Job, JobEvent
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_PREEMPTING: Final = (DecisionKind.EVICT, DecisionKind.MIGRATE, DecisionKind.SHRINK)
_EVENTS: Final = ("evicting", "shrunk")
_NEAR: Final = timedelta(minutes=1)
"""The longest time between a decision and its event, which are written in one transaction."""


@dataclass(frozen=True, slots=True)
class Beneficiary:
    """The job for which another one was preempted, by the most specific name that the reader may see.

    It is `job` with its workspace, or else `tenant`, the workspace or the nearest visible folder above it;
    both are None if the reader may see none of them.
    """

    job: Job | None = None
    tenant: Tenant | None = None


def job_beneficiaries(*, viewer: Actor, job: Job, events: Collection[JobEvent]) -> Mapping[int, Beneficiary]:
    """Return the beneficiary by event, without events that have none or whose beneficiary was deleted.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    wanted = [event for event in events if event.code in _EVENTS and event.numbers.get("rule")]
    decided = _read_decisions(job) if wanted else ()
    jobs = {event.pk: found for event in wanted if (found := _find_beneficiary(event, decided))}
    named = _name_workspaces(viewer, {one.workspace_id: one.workspace for one in jobs.values()})
    return {
        pk: Beneficiary(job=one, tenant=one.workspace)
        if one.workspace_id == job.workspace_id or _may_see_jobs(viewer, one.workspace)
        else Beneficiary(tenant=named.get(one.workspace_id))
        for pk, one in jobs.items()
    }


@row_scope.whole()
def _read_decisions(job: Job) -> Sequence[Decision]:
    rows = Decision.unscoped.filter(job=job, kind__in=_PREEMPTING, beneficiary__isnull=False)
    return list(rows.select_related("beneficiary__workspace").order_by("created_at"))


def _find_beneficiary(event: JobEvent, decided: Sequence[Decision]) -> Job | None:
    """Return the beneficiary of the decision that has the same rule and was written together with the
    event."""

    def measure_gap(decision: Decision) -> timedelta:
        return abs(decision.created_at - event.at)

    same = [one for one in decided if one.code == event.numbers["rule"] and measure_gap(one) <= _NEAR]
    return min(same, key=measure_gap).beneficiary if same else None


def _may_see_jobs(viewer: Actor, workspace: Tenant) -> bool:
    return permissions.has_permission(viewer, Permission.JOB_VIEW, workspace)


def _name_workspaces(viewer: Actor, workspaces: Mapping[uuid.UUID, Tenant]) -> Mapping[uuid.UUID, Tenant]:
    """Return, for each workspace, itself or the nearest folder above it that the viewer may see."""
    above = {pk for workspace in workspaces.values() for pk in workspace.path.strip("/").split("/")}
    seen = list(permissions.visible_tenants(viewer).filter(pk__in=above)) if above else []
    found = {}
    for pk, workspace in workspaces.items():
        around = [tenant for tenant in seen if workspace.path.startswith(tenant.path)]
        if around:
            found[pk] = max(around, key=lambda tenant: len(tenant.path))
    return found
