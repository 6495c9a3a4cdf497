"""Reads priority classes and their grants to tenants."""

from __future__ import annotations

import uuid
from typing import Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from scheduling.models import PriorityClass, PriorityGrant
from tenants.access import permissions

CLASS_COLUMNS: Final = {"name": Column("name"), "value": Column("value", ColumnKind.NUMBER)}
GRANT_COLUMNS: Final = {
    "tenant": Column("tenant.slug"),
    "priority_class": Column("priority_class.name"),
}
"""The columns by which a list of grants can be filtered."""


def priority_class_all() -> QuerySet[PriorityClass]:
    """Return all classes, highest first. Their names and values are not secret."""
    return PriorityClass.unscoped.order_by("-value", "name")


def priority_class_get(name: str) -> PriorityClass:
    """Return one class by name.

    Raises: NotFound.
    """
    found = PriorityClass.unscoped.filter(name=name).first()
    if found is None:
        raise NotFound(_("Priority class %(name)s not found.") % {"name": name})
    return found


def priority_grant_list(*, viewer: Actor) -> QuerySet[PriorityGrant]:
    """Return the grants of visible tenants, by tenant and class."""
    grants = PriorityGrant.unscoped.filter(tenant__in=permissions.visible_tenants(viewer))
    return grants.select_related("tenant__parent", "priority_class").order_by(
        "tenant__slug", "-priority_class__value", "pk"
    )


def priority_grant_get(*, viewer: Actor, pk: uuid.UUID) -> PriorityGrant:
    """Return one grant.

    Raises: NotFound, also for a grant of a tenant that the viewer may not see.
    """
    found = priority_grant_list(viewer=viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Priority grant not found."))
    return found
