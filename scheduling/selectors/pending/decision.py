"""Reads the engine's decisions about a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from foundation.core.actor import Actor
from scheduling.models import Decision, Job
from tenants.access import permissions
from tenants.access.permissions import Permission

_SHOWN: Final = 20


def decision_latest(*, viewer: Actor, job: Job, limit: int = _SHOWN) -> Sequence[Decision]:
    """Return the latest decisions about a job, newest first, without beneficiaries: not all readers may see
    them.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    return list(Decision.unscoped.filter(job=job).order_by("-created_at", "-pk")[:limit])
