"""Requests, cancels and deletes replays of a cell's past; platform admins may do so."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Cell
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.sql import row_scope
from scheduling.models import OPEN_SIMULATIONS, Job, PolicyReplay, SimulationState
from scheduling.services.policy_replay.change import ReplayChange, describe_change
from scheduling.services.policy_replay.recorded_period import MOST_JOBS
from tenants.access import permissions
from tenants.access.permissions import Permission

LONGEST: Final = timedelta(days=31)
SHORTEST: Final = timedelta(hours=1)
MOST_OPEN: Final = 10
"""The maximum number of pending and running replays in the whole installation; only one runs at a time."""
_LIMITS: Final = gettext_lazy("Select a period in the past of 1 hour to 31 days.")


@transaction.atomic
def replay_create(
    *,
    acting_user: Actor,
    cell: Cell,
    begin: datetime,
    end: datetime,
    change: ReplayChange,
    name: str = "",
) -> PolicyReplay:
    """Request a replay of the jobs of a period with a change; a worker starts it within seconds.

    Raises: PermissionDenied; Invalid for the period or the change; Conflict while too many are pending.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    _check_period(cell, begin, end)
    described = describe_change(acting_user, cell, change)
    if PolicyReplay.unscoped.filter(state__in=OPEN_SIMULATIONS).count() >= MOST_OPEN:
        message = _("%(most)s replays are pending or running. Wait until one ends, or cancel one.")
        raise Conflict(message % {"most": MOST_OPEN}, code="TOO_MANY_REPLAYS")
    made = PolicyReplay.unscoped.create(
        cell=cell,
        name=name.replace("\x00", "").strip()[:100],
        actor_id=acting_user.pk,
        actor_name=acting_user.get_username(),
        begin_at=begin,
        end_at=end,
        change=described,
    )
    _record(acting_user, "policy-replay.create", made)
    return made


def _check_period(cell: Cell, begin: datetime, end: datetime) -> None:
    if end > clock.now() or not SHORTEST <= end - begin <= LONGEST:
        text = str(_LIMITS)
        raise Invalid(text, errors=[FieldError("begin_at", "RANGE", text)])
    with row_scope.whole():
        submitted = Job.unscoped.filter(queue__cell=cell, submitted_at__gte=begin, submitted_at__lt=end)
        jobs = submitted.count()
    if not jobs or jobs > MOST_JOBS:
        text = _("No jobs were submitted in this period. Select another period.")
        if jobs:
            text = _(
                "%(jobs)s jobs were submitted in this period. Maximum: %(most)s. Select a shorter period."
            )
        text = text % {"jobs": f"{jobs:,}", "most": f"{MOST_JOBS:,}"}
        raise Invalid(text, errors=[FieldError("begin_at", "JOBS", text)])


@transaction.atomic
def replay_cancel(*, acting_user: Actor, replay: PolicyReplay) -> PolicyReplay:
    """Cancel a pending or running replay; its process stops within seconds.

    Raises: PermissionDenied; Conflict for one that has ended.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    open_one = PolicyReplay.unscoped.filter(pk=replay.pk, state__in=OPEN_SIMULATIONS)
    if not open_one.update(state=SimulationState.CANCELED, finished_at=clock.now()):
        raise Conflict(_("The replay has ended."), code="REPLAY_ENDED")
    replay.refresh_from_db()
    _record(acting_user, "policy-replay.cancel", replay)
    return replay


@transaction.atomic
def replay_delete(*, acting_user: Actor, replay: PolicyReplay) -> None:
    """Delete a replay with its result; a running replay stops.

    Raises: PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    _record(acting_user, "policy-replay.delete", replay)
    replay.delete()


def _record(acting_user: Actor, action: str, replay: PolicyReplay) -> None:
    said = {
        "cell": replay.cell.name,
        "name": replay.name,
        "begin_at": replay.begin_at.isoformat(),
        "end_at": replay.end_at.isoformat(),
        "change": replay.change,
    }
    deletes = action.endswith("delete")
    audit_log.record_action(
        acting_user,
        action,
        entity="policy-replay",
        entity_id=replay.pk,
        before=said if deletes else None,
        after=None if deletes else said,
    )
