"""The two lists of a workspace's keys: the keys themselves, and the service accounts."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext as _

from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User


def may_manage(who: User, place: Tenant) -> bool:
    """Return whether the viewer manages the service accounts of a workspace."""
    return permissions.has_permission(who, Permission.MEMBER_EDIT, place)


def key_sections(who: User, place: Tenant | None) -> list[tuple[str, str]]:
    """Return the addresses of both lists with their labels; none for a viewer who sees keys alone."""
    if place is None or not may_manage(who, place):
        return []
    return [
        (reverse("frontend:workspace-keys", args=[place.slug]), _("Keys")),
        (reverse("frontend:workspace-service-accounts", args=[place.slug]), _("Service accounts")),
    ]
