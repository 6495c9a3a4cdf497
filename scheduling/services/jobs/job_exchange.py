"""Exchanges the positions of two pending jobs of one user in their queue.

Each of the two jobs gets the other's time of ordering. As both have the same user, priority and queue, no
other job's position changes, whatever the ordering of the queue.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from django.db.models import Q
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.errors import Conflict
from foundation.messaging import outbox
from scheduling.lifecycle.transitions import advance_job
from scheduling.models import WAITING_STATES, Job
from scheduling.selectors.jobs.exchangeable import equivalent_jobs, is_delegated
from scheduling.services.jobs.acting import act_on, require_stop
from tenants.models import User

_STEP: Final = timedelta(microseconds=1)


def exchange_jobs(*, acting_user: User, job: Job, other: Job, expected: int | None = None) -> Job:
    """Exchange the positions of two pending jobs with the same user, queue and priority.

    Raises: PermissionDenied, NotFound; Conflict when they cannot be exchanged.
    """
    require_stop(acting_user, job)
    require_stop(acting_user, other)
    act_on(job, expected, lambda: _exchange(acting_user, job, other.pk))
    return job


def _exchange(user: User, job: Job, other_id: uuid.UUID) -> None:
    if is_delegated(job):
        raise Conflict(
            _("The cluster's own scheduler orders the jobs of this queue."), code="OTHER_SCHEDULER"
        )
    other = Job.unscoped.get(pk=other_id)
    times = {job.ordered_at, other.ordered_at}
    rows = [
        row
        for row in equivalent_jobs(job).filter(Q(submitted_at__in=times) | Q(order_at__in=times))
        if row.ordered_at in times
    ]
    places = [place for place, row in enumerate(rows) if row.pk in (job.pk, other_id)]
    if len(places) != 2:
        message = _("Select another pending job of the same user, queue and priority without reserved nodes.")
        raise Conflict(message, code="NOT_EXCHANGEABLE")
    first, second = places
    exchanged = [*rows]
    exchanged[first], exchanged[second] = rows[second], rows[first]
    new_times = _spread([row.ordered_at for row in rows])
    _require_unused(job, rows, times | set(new_times))
    changes = {row.pk: at for row, at in zip(exchanged, new_times, strict=True) if row.ordered_at != at}
    _write(user, job, {row.pk: row for row in rows} | {job.pk: job}, other, changes)


def _spread(times: Sequence[datetime]) -> list[datetime]:
    """Return the sorted times with equal ones a microsecond apart; otherwise ids would decide their order."""
    return [at + place * _STEP for at, same in groupby(times) for place, _at in enumerate(same)]


def _require_unused(job: Job, rows: Sequence[Job], times: set[datetime]) -> None:
    """Refuse times that a job other than `rows` has, because its position could change. Raises: Conflict."""
    others = Job.unscoped.filter(
        queue__cell=job.queue.cell_id, priority=job.priority, state__in=WAITING_STATES
    ).exclude(pk__in=[row.pk for row in rows])
    if others.filter(Q(order_at__in=times) | Q(order_at__isnull=True, submitted_at__in=times)).exists():
        message = _("Another job was submitted at the same moment. Their order can't be changed.")
        raise Conflict(message, code="NOT_EXCHANGEABLE")


def _write(
    user: User, job: Job, rows: Mapping[uuid.UUID, Job], other: Job, changes: Mapping[uuid.UUID, datetime]
) -> None:
    now, names = clock.now(), {job.pk: other.name, other.pk: job.name}
    for pk, at in sorted(changes.items()):
        row = rows[pk]
        advance_job(
            row,
            code="exchanged",
            now=now,
            actor=user.get_username(),
            numbers={"other": names.get(pk, "")},
            order_at=None if at == row.submitted_at else at,
        )
    outbox.add_hint(outbox.Topic.CYCLE, job.queue.cell_id)
    audit_log.record_action(
        user,
        "job.exchange",
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        after={"name": job.name, "other": other.name},
    )
