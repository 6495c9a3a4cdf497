"""Issuing and checking access keys.

A key is `alt_<prefix>_<secret>`: the prefix finds the row, the SHA-256 of 256 random bits proves it.
A slow password hash is not needed for a secret nobody chose.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from foundation import audit, clock
from foundation.actor import Actor
from tenants import permissions
from tenants.models import AccessKey, User
from tenants.permissions import Permission

_MARK: Final = "alt"
_TOUCH_EVERY: Final = timedelta(minutes=1)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def access_key_create(
    *,
    acting_user: Actor,
    user: User,
    name: str,
    scopes: tuple[str, ...] = (),
    expires_at: datetime | None = None,
) -> tuple[AccessKey, str]:
    """Make a key for `user`; returns the row and the token, which cannot be read again.

    An empty `scopes` means every point the user has.
    Raises: PermissionDenied for somebody else's key without the right to edit members.
    """
    _require_own(acting_user, user)
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = AccessKey.unscoped.create(
        user=user,
        name=name,
        prefix=prefix,
        secret_hash=_hash(secret),
        scopes=list(scopes),
        expires_at=expires_at,
    )
    audit.record(
        acting_user, "access-key.create", entity="access-key", entity_id=key.pk, after={"name": name}
    )
    return key, f"{_MARK}_{prefix}_{secret}"


@transaction.atomic
def access_key_revoke(*, acting_user: Actor, key: AccessKey) -> None:
    """End a key at once. Raises: as `access_key_create`."""
    _require_own(acting_user, key.user)
    AccessKey.unscoped.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=clock.now())
    audit.record(acting_user, "access-key.revoke", entity="access-key", entity_id=key.pk)


def _require_own(acting_user: Actor, user: User) -> None:
    if acting_user.pk != user.pk:
        permissions.require(acting_user, Permission.MEMBER_EDIT)


def access_key_check(token: str) -> AccessKey | None:
    """Return the live key behind a token, or None. Notes its use at most once a minute."""
    mark, _, rest = token.partition("_")
    prefix, _, secret = rest.partition("_")
    if mark != _MARK or not secret:
        return None
    key = AccessKey.unscoped.select_related("user").filter(prefix=prefix, revoked_at__isnull=True).first()
    if key is None or not hmac.compare_digest(key.secret_hash, _hash(secret)):
        return None
    now = clock.now()
    if not key.user.is_active or (key.expires_at is not None and key.expires_at <= now):
        return None
    if key.last_used_at is None or now - key.last_used_at > _TOUCH_EVERY:
        AccessKey.unscoped.filter(pk=key.pk).update(last_used_at=now)
    return key
