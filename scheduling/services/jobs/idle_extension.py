"""Extends the time before the policy's action on a job whose GPUs are idle."""

from __future__ import annotations

from datetime import timedelta

from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.errors import Conflict, FieldError, Invalid
from scheduling.lifecycle.transitions import advance_job
from scheduling.models import IdleStretch, Job
from scheduling.services.jobs.acting import act_on, require_stop
from tenants.models import User


def extend_idle_job(
    *, acting_user: User, job: Job, seconds: int | None = None, expected: int | None = None
) -> IdleStretch:
    """Postpone the action of which the owner of an idle job was warned, by at most the idle timeout.

    Without `seconds` it is postponed by the whole timeout. A second request for the same warning changes
    nothing. The owner is warned again before the new time, and can extend again.

    Raises: PermissionDenied, NotFound; Conflict (NOT_WARNED) when no action is announced; Invalid for the
    time; PreconditionFailed when the job does not have the version `expected`.
    """
    require_stop(acting_user, job)
    return act_on(job, expected, lambda: _extend(acting_user, job, seconds))


def _extend(user: User, job: Job, seconds: int | None) -> IdleStretch:
    now = clock.now()
    found = IdleStretch.unscoped.select_for_update().filter(job=job, attempt_number=job.attempt_number)
    stretch = found.filter(acted_at__isnull=True, limit_s__isnull=False).first()
    if stretch is None or stretch.limit_s is None or not stretch.is_fresh(now):
        raise Conflict(_("The job has no idle warning."), code="NOT_WARNED")
    act_at = stretch.act_at
    if stretch.warned_at is None or act_at is None:
        if stretch.extensions:
            return stretch  # the request was sent twice
        raise Conflict(_("The job has no idle warning."), code="NOT_WARNED")
    by_s = stretch.limit_s if seconds is None else seconds
    if not 1 <= by_s <= stretch.limit_s:
        message = _("Must be from %(low)s to %(high)s.") % {"low": 1, "high": stretch.limit_s}
        raise Invalid(message, errors=[FieldError("seconds", "RANGE", message)])
    before, stretch.extended_until = act_at, max(act_at, now) + timedelta(seconds=by_s)
    stretch.extensions += 1
    stretch.warned_at = None
    advance_job(job, code="idle_extended", now=now, actor=user.get_username(), numbers={"by_s": by_s})
    stretch.save(update_fields=["extended_until", "extensions", "warned_at"])
    audit_log.record_action(
        user,
        "job.extend",
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        before={"act_at": before.isoformat()},
        after={"name": job.name, "act_at": stretch.extended_until.isoformat()},
    )
    return stretch
