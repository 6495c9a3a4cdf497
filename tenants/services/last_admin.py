"""The check that the platform always has an active admin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from foundation.core.errors import Conflict
from tenants.models import AccountKind, Member, Role, User


@contextmanager
def require_admin_left() -> Iterator[None]:
    """Run the block in one transaction, which is rolled back if it removes the last admin of the platform.

    Such changes are serialized: two admins who remove each other at the same time would both still see one
    left. A platform without an admin may stay without one. Raises: Conflict with code LAST_PLATFORM_ADMIN.
    """
    with transaction.atomic():
        admins = Member.unscoped.select_for_update().filter(role=Role.PLATFORM_ADMIN)
        had = bool(list(admins.order_by("pk").values_list("pk"))) and _admins_left()
        yield
        if had and not _admins_left():
            message = _("The platform needs at least one admin. Assign another admin first.")
            raise Conflict(message, code="LAST_PLATFORM_ADMIN")


def _admins_left() -> bool:
    """Return whether an active user is platform admin, directly or by a group."""
    direct = Q(memberships__role=Role.PLATFORM_ADMIN)
    by_group = Q(in_groups__group__memberships__role=Role.PLATFORM_ADMIN)
    return User.objects.filter(direct | by_group, is_active=True, kind=AccountKind.PERSON).exists()
