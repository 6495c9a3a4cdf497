"""Reads the job templates of a workspace."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from scheduling.models import JobTemplate
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

JOB_TEMPLATE_COLUMNS: Final[Mapping[str, Column]] = {
    "name": Column("name"),
    "description": Column("description"),
    "saved_by": Column("saved_by.username"),
    "saved_at": Column("saved_at", ColumnKind.TIME),
}


def job_template_list(*, viewer: Actor, workspace: Tenant) -> QuerySet[JobTemplate]:
    """Return the templates of a workspace, by name.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, workspace)
    rows = JobTemplate.unscoped.filter(workspace=workspace).select_related("workspace", "saved_by")
    return rows.order_by("name", "pk")


def job_template_get(*, viewer: Actor, workspace: Tenant, pk: uuid.UUID) -> JobTemplate:
    """Return one template. Raises: NotFound, PermissionDenied."""
    found = job_template_list(viewer=viewer, workspace=workspace).filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Job template not found."))
    return found
