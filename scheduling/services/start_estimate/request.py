"""Requests, cancels and deletes estimates of starts. A user has one at most for each subject."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.errors import Conflict
from foundation.sql import row_scope
from foundation.sql.postgres import transactions_in_turn
from scheduling.job_file import spec_mapping
from scheduling.models import OPEN_SIMULATIONS, EstimateSubject, SimulationState, StartEstimate
from scheduling.selectors.pending.start_prediction import NoForecast, queue_forecast
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_read import job_read
from tenants.models import Tenant, User

MOST_OPEN: Final = 20
"""The maximum number of pending and running estimates in the whole installation; only one runs at a time."""
SHOWN_FOR: Final = timedelta(minutes=10)
"""The time for which the result of an estimate is shown: jobs and quotas change."""
STORED_FOR: Final = timedelta(days=1)
_LOCK: Final = 0x65737469
"""The key of the advisory lock: two requests of a user at once would both create a row, and requests at once
would exceed `MOST_OPEN`."""


def key_of_draft(body: Mapping[str, Any]) -> str:
    """Return the digest of a job file; its name doesn't matter for the start."""
    return _digest({name: value for name, value in body.items() if name != "name"})


def _digest(asked: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def request_draft_estimate(*, acting_user: User, workspace: Tenant, body: Mapping[str, Any]) -> StartEstimate:
    """Request an estimate of when a job would start; a worker begins within seconds if no other simulation is
    pending or running.

    It replaces the user's earlier one. The stored job file is that of the specification: a body may contain
    numbers that JSON has not, as `.inf`. Raises: as `job_read` and `job_check`; Conflict if the cluster's own
    scheduler decides about the queue, or if too many estimates are pending.
    """
    spec = job_read(acting_user=acting_user, workspace=workspace, body=body).spec
    queue = job_check(acting_user=acting_user, workspace=workspace, spec=spec).queue
    if queue_forecast(queue) is NoForecast.OTHER_SCHEDULER:
        message = _("Unknown: the cluster's own scheduler decides when this job starts.")
        raise Conflict(message, code="OTHER_SCHEDULER")
    return create_estimate(
        acting_user=acting_user,
        subject=EstimateSubject.DRAFT,
        workspace=workspace,
        cell_id=queue.cell_id,
        asked=spec_mapping(spec),
        asked_key=key_of_draft(body),
    )


@transaction.atomic
def create_estimate(*, acting_user: User, subject: EstimateSubject, **fields: Any) -> StartEstimate:
    """Create an estimate in place of the user's earlier one of this subject; the caller has checked `asked`.

    Raises: Conflict if too many are pending.
    """
    transactions_in_turn(_LOCK)
    StartEstimate.unscoped.filter(user=acting_user, subject=subject).delete()
    with row_scope.whole():
        count = StartEstimate.unscoped.filter(state__in=OPEN_SIMULATIONS).count()
    if count >= MOST_OPEN:
        raise Conflict(_("Too many estimates are pending. Try again in a minute."), code="TOO_MANY_ESTIMATES")
    return StartEstimate.unscoped.create(user=acting_user, subject=subject, **fields)


def cancel_estimate(*, acting_user: User, subject: EstimateSubject) -> None:
    """Cancel the user's pending or running estimate, if any; its process stops within seconds."""
    rows = StartEstimate.unscoped.filter(user=acting_user, subject=subject, state__in=OPEN_SIMULATIONS)
    rows.update(state=SimulationState.CANCELED, finished_at=clock.now(), **StartEstimate.at_end)


def find_estimate(
    *,
    viewer: User,
    subject: EstimateSubject,
    now: datetime,
    key: str = "",
    pk: uuid.UUID | None = None,
    workspace: Tenant | None = None,
    with_expired: bool = False,
) -> StartEstimate | None:
    """Return the viewer's own estimate with this id, or of what has this key; None if there is none, or
    without `with_expired` if it `is_expired`."""
    found = StartEstimate.unscoped.filter(user=viewer, subject=subject, workspace=workspace)
    row = (found.filter(pk=pk) if pk is not None else found.filter(asked_key=key)).first()
    return None if row is None or (is_expired(row, now) and not with_expired) else row


def is_expired(row: StartEstimate, now: datetime) -> bool:
    """Return whether an estimate ended longer than `SHOWN_FOR` ago."""
    return row.finished_at is not None and row.finished_at < now - SHOWN_FOR


def prune_estimates(*, now: datetime) -> None:
    """Delete estimates that were requested longer than `STORED_FOR` ago."""
    StartEstimate.unscoped.filter(created_at__lt=now - STORED_FOR).delete()
