"""Finds and suspends jobs for which it is unknown, after a restore, whether they have run since the
backup."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from django.db.models import Q, QuerySet

from clusters.hooks.restarts import RestartingJob
from clusters.models import Cluster
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.reasons import Reason
from foundation.sql import row_scope
from scheduling.lifecycle.job_lifecycle import begin_eviction, end_claims
from scheduling.lifecycle.transitions import change_state
from scheduling.models import Allocation, Job, JobState

_LIVE: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
_PORTION: Final = 500


@row_scope.whole()
def find_restarting(cluster: Cluster, seen: Collection[str]) -> list[RestartingJob]:
    """Return the jobs that would start when a cluster is used after a restore: queued jobs of its cell, and
    live jobs with allocations there, without pods in the cluster. `seen` are the ids of the jobs that have
    pods."""
    rows = _starting(cluster).order_by("workspace__slug", "name", "pk")
    found = rows.values_list("pk", "workspace__slug", "name", "state")
    return [RestartingJob(*row) for row in found if str(row[0]) not in seen]


def _starting(cluster: Cluster) -> QuerySet[Job]:
    here = Allocation.unscoped.filter(node__cluster=cluster, released_at__isnull=True)
    live = Q(state__in=_LIVE, pk__in=here.values("attempt__job"))
    return Job.unscoped.filter(Q(state=JobState.QUEUED) | live, queue__cell=cluster.cell_id)


@row_scope.whole()
def hold_restarting(actor: Actor, cluster: Cluster, found: Sequence[RestartingJob]) -> None:
    """Suspend these jobs, so that users decide for each whether it is to run.

    It must run in a transaction that has locked their cell.
    """
    now, name = clock.now(), actor.get_username()
    for job in _locked([one.job_id for one in found]):
        if job.state == JobState.QUEUED:
            change_state(
                job, JobState.SUSPENDED, code="suspended", now=now, actor=name,
                reason=Reason.SUSPENDED, reason_numbers={"user": name, "restored": cluster.name},
                reason_help=[], reason_at=now,
            )  # fmt: skip
            end_claims([job])
        elif job.state in _LIVE:
            begin_eviction(job=job, rule="USER", then=JobState.SUSPENDED, now=now, actor=name)
        else:
            continue
        audit_log.record_action(
            actor, "job.suspend", entity="job", entity_id=job.pk, tenant_id=job.workspace_id,
            after={"name": job.name, "restored": cluster.name},
        )  # fmt: skip


def _locked(keys: Sequence[uuid.UUID]) -> Iterator[Job]:
    ordered = sorted(keys)
    for start in range(0, len(ordered), _PORTION):
        rows = Job.unscoped.select_for_update(of=("self",), no_key=True).select_related("queue")
        yield from rows.filter(pk__in=ordered[start : start + _PORTION]).order_by("pk")
