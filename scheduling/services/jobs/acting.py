"""Changes of a job by people: their permission, and the outcome when the engine was faster."""

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
    """Check that a user may change what a job does: their own, or any as an admin of its workspace.

    Raises: PermissionDenied, NotFound.
    """
    own = job.submitted_by_id == user.pk and permissions.has_permission(
        user, Permission.JOB_STOP_OWN, job.workspace
    )
    if not own:
        permissions.require_permission(user, Permission.JOB_STOP_ANY, job.workspace)


def act_on(job: Job, expected: int | None, act: Callable[[], T]) -> T:
    """Run `act` in a transaction; when the engine was faster, look again and decide anew.

    Only the version `expected` is changed, where one is given: each act is a compare-and-set on the version
    that was checked here.
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
