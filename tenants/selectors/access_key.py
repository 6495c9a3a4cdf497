"""Reading access keys: users see their own; admins of a tenant also see those of its service accounts."""

from __future__ import annotations

from typing import Final

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from foundation.core.errors import NotFound
from foundation.web.listing import Column, ColumnKind
from tenants.access import grants, permissions
from tenants.access.permissions import Permission
from tenants.models import AccessKey, Tenant, User

KEY_COLUMNS: Final = {
    "prefix": Column("prefix"),
    "name": Column("name"),
    "created_at": Column("created_at", ColumnKind.TIME),
    "expires_at": Column("expires_at", ColumnKind.TIME),
    "last_used_at": Column("last_used_at", ColumnKind.TIME),
}
"""The columns by which a list of access keys can be filtered."""


def access_key_list(*, viewer: User, tenant: Tenant | None = None) -> QuerySet[AccessKey]:
    """Return the viewer's keys that are not revoked, newest first.

    With a `tenant`, a viewer who may edit its members also gets the keys of its service accounts, except of
    accounts with more permissions than the viewer.
    """
    whose = Q(user_id=viewer.pk)
    if tenant is not None and permissions.has_permission(viewer, Permission.MEMBER_EDIT, tenant):
        accounts = list(User.objects.filter(home=tenant))
        grants.read_ahead(account.pk for account in accounts)
        whose |= Q(user_id__in=[account.pk for account in accounts if permissions.is_over(viewer, account)])
    keys = AccessKey.unscoped.filter(whose, revoked_at__isnull=True).select_related("user__home")
    return keys.order_by("-created_at", "-pk")


def access_key_get(*, viewer: User, prefix: str, tenant: Tenant | None = None) -> AccessKey:
    """Return one key by its prefix.

    Raises: NotFound.
    """
    key = access_key_list(viewer=viewer, tenant=tenant).filter(prefix=prefix).first()
    if key is None:
        raise NotFound(_("Access key not found."))
    return key
