"""Reading access keys: everybody sees their own, nobody anyone else's."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from foundation.errors import NotFound
from tenants.models import AccessKey, User


def access_key_list(*, viewer: User) -> QuerySet[AccessKey]:
    """The viewer's keys that are not revoked, newest first."""
    return AccessKey.unscoped.filter(user_id=viewer.pk, revoked_at__isnull=True).order_by(
        "-created_at", "-pk"
    )


def access_key_get(*, viewer: User, prefix: str) -> AccessKey:
    """One of the viewer's keys by its prefix.

    Raises: NotFound.
    """
    key = access_key_list(viewer=viewer).filter(prefix=prefix).first()
    if key is None:
        raise NotFound(_("There is no such access key."))
    return key
