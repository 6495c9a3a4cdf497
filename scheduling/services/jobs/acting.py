"""Changes of a job by users: checks permissions, and retries when the engine changed the job meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from django.db import transaction

from foundation.sql.versions import require_current
from scheduling.lifecycle.transitions import StaleJob
from scheduling.models import Job
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

T = TypeVar("T")
_TRIES: Final = 3


def require_stop(user: User, job: Job) -> None:
    """Check that a user may change a job: their own job, or any job of a workspace where they may stop all.

    Raises: PermissionDenied, NotFound.
    """
    own = job.submitted_by_id == user.pk and permissions.has_permission(
        user, Permission.JOB_STOP_OWN, job.workspace
    )
    if not own:
        permissions.require_permission(user, Permission.JOB_STOP_ANY, job.workspace)


def act_on(job: Job, expected: int | None, act: Callable[[], T]) -> T:
    """Run `act` in a transaction; if the job was changed meanwhile, read it and run `act` again.

    If `expected` is given, only that version is changed: each act is a compare-and-set on the version that
    was checked here.
    """
    for _try in range(_TRIES - 1):
        require_current(job, expected)
        try:
            with transaction.atomic():
                return act()
        except StaleJob:
            job.refresh_from_db()
    require_current(job, expected)
    with transaction.atomic():
        return act()
