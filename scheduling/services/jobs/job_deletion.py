"""Deletion of finished jobs."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.errors import Conflict
from scheduling.models import TERMINAL_STATES, Job, JobDeletion
from scheduling.services.jobs.acting import require_stop
from tenants.models import User


@transaction.atomic
def job_delete(*, acting_user: User, job: Job) -> None:
    """Delete a finished job. Its usage, cost, timeline, preemptions and audit records are kept.

    Raises: PermissionDenied, NotFound; Conflict for a job that has not finished or was deleted before.
    """
    require_stop(acting_user, job)
    if job.state not in TERMINAL_STATES:
        raise Conflict(_("Only finished jobs can be deleted. Cancel the job first."), code="JOB_NOT_ENDED")
    _deletion, made = JobDeletion.unscoped.get_or_create(job=job)
    if not made:
        raise Conflict(_("The job was already deleted."), code="JOB_DELETED")
    audit_log.record_action(
        acting_user,
        "job.delete",
        entity="job",
        entity_id=job.pk,
        tenant_id=job.workspace_id,
        before={"name": job.name, "state": str(job.state)},
    )
