"""The lines of a list of jobs, described for all jobs of a page at once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from django.utils.html import escape

from foundation.core import clock
from foundation.core.months import CORE_MS_PER_GPU_HOUR
from frontend.lists.page_list import PageList
from frontend.pages.jobs import job_facts
from frontend.pages.jobs.addresses import job_address, jobs_address, new_job_address, node_address
from frontend.pages.jobs.job_facts import Rights, rights_of
from frontend.pages.jobs.job_tags import TagLink, filter_address
from frontend.pages.jobs.table.job_columns import CLUSTER, COSTS, IDLE, JobListLine
from scheduling.models import IdleAction, IdleStretch, Job
from scheduling.selectors.allocations.idle import find_idle_stretches
from scheduling.selectors.jobs.job_sight import job_clusters
from scheduling.selectors.jobs.row import JobListRow, job_rows
from scheduling.selectors.policies.priority import priority_class_list
from telemetry.series import UseNow, jobs_now
from telemetry.usage.job_costs import JobCost, job_costs
from tenants.access.permissions import Permission
from tenants.models import User

_STOPS: Final = frozenset({Permission.JOB_STOP_OWN, Permission.JOB_STOP_ANY})


@dataclass(frozen=True, slots=True)
class _PageFacts:
    """The facts that are read for all jobs of a page at once, by job."""

    rows: Mapping[uuid.UUID, JobListRow]
    use: Mapping[uuid.UUID, UseNow]
    costs: Mapping[uuid.UUID, JobCost]
    clusters: Mapping[uuid.UUID, Sequence[str]]
    idle: Mapping[uuid.UUID, IdleStretch]
    addresses: Mapping[uuid.UUID, tuple[str, str]]
    """The list of jobs and the form of a new one, by workspace."""


def describe_jobs(who: User, shown: PageList, jobs: Sequence[Job]) -> list[JobListLine]:
    """Return the lines of jobs of any workspaces, each with the viewer's permissions in its workspace.

    Data that only some columns need is read if they are shown.
    """
    columns = set(shown.choice.columns) | (set(shown.all_columns_by_key) if shown.shown_id else set())
    workspaces = {job.workspace_id: job.workspace for job in jobs}
    rights = {pk: rights_of(who, workspace) for pk, workspace in workspaces.items()}
    rows, now = job_rows(viewer=who, jobs=jobs), clock.now()
    costs: Mapping[uuid.UUID, JobCost] = {}
    if jobs and COSTS & columns:
        costs = job_costs(who, workspaces.values(), [job.pk for job in jobs], now=now)
    facts = _PageFacts(
        rows=rows,
        use=jobs_now(who, [job.pk for job in jobs if job.holds]),
        costs=costs,
        clusters=job_clusters(viewer=who, jobs=jobs) if CLUSTER in columns else {},
        idle=find_idle_stretches(jobs) if IDLE & columns else {},
        addresses={
            pk: (escape(jobs_address(workspace.slug)), escape(new_job_address(workspace.slug)))
            for pk, workspace in workspaces.items()
        },
    )
    return [_line(job, facts, rights[job.workspace_id], shown, now) for job in jobs]


def _line(job: Job, facts: _PageFacts, rights: Rights, shown: PageList, now: datetime) -> JobListLine:
    row, cost, idle = facts.rows[job.pk], facts.costs.get(job.pk), facts.idle.get(job.pk)
    jobs_url, new_url = facts.addresses[job.workspace_id]
    return JobListLine(
        job=job,
        url=job_address(job.workspace.slug, job.pk),
        jobs_url=jobs_url,
        new_url=new_url,
        row=row,
        use=facts.use.get(job.pk),
        actions=job_facts.actions_of(job, rights),
        cards=job_facts.cards_asked(job),
        size=job_facts.format_size(job),
        waited=job_facts.waiting_time(job, now),
        ran=job_facts.run_time(job, now),
        nodes=[
            (name, node_address(name, cluster) if rights.operations else "") for cluster, name in row.nodes
        ],
        tags=[TagLink(name, filter_address(shown, name)) for name in job.tags],
        gpu_hours=cost.core_ms / CORE_MS_PER_GPU_HOUR if cost else None,
        cost=cost.amount if cost else None,
        clusters=facts.clusters.get(job.pk, ()),
        images=list(dict.fromkeys(role.image for role in job.roles.all() if role.image)),
        idle=now - idle.since if idle else None,
        stops_at=_stop_time(job, idle),
        fixed=_STOPS.isdisjoint(rights.points),
        priority_classes=partial(priority_class_list, viewer=rights.user, workspace=job.workspace),
    )


def _stop_time(job: Job, idle: IdleStretch | None) -> datetime | None:
    """Return when a running job is stopped if nothing changes: at its run-time limit, or for idle GPUs."""
    times = [job.deadline_at] if job.holds else []
    if idle is not None and idle.acted_at is None and idle.action == IdleAction.SUSPEND:
        times.append(idle.act_at)
    return min((at for at in times if at is not None), default=None)
