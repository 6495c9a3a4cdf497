"""Issuing and checking access keys.

A key is `alt_<prefix>_<secret>`: the prefix finds the row, the SHA-256 of 256 random bits proves it. A random
secret does not need a slow password hash. The token exists only in the response that created it: rows, audit,
logs and errors contain the prefix only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid, PermissionDenied
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import AccessKey, User
from tenants.services.service_account import require_manage

_MARK: Final = "alt"
_TOUCH_EVERY: Final = timedelta(minutes=1)
GRACE_MAX_S: Final = 7 * 24 * 3600
_LIVE: Final = PreparedQuery(
    lambda prefix: (
        AccessKey.unscoped.filter(prefix=prefix, revoked_at__isnull=True).order_by().select_related("user")
    )
)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@transaction.atomic
def access_key_create(
    *,
    acting_user: Actor,
    user: User,
    name: str,
    scopes: Sequence[str] = (),
    expires_at: datetime | None = None,
) -> tuple[AccessKey, str]:
    """Create a key for `user`; return the row and the token, which cannot be read again.

    An empty `scopes` means every permission of the user. Raises: PermissionDenied for another user without
    the permission to edit members of the platform, for an account with more permissions than the actor, and
    for a service account that the actor may not manage; Invalid for a past expiry, and for an unreadable
    name.
    """
    _require_owner(acting_user, user)
    if not name.isprintable():
        message = _("Names can't contain control characters.")
        raise Invalid(message, errors=[FieldError("name", "name", message)])
    if expires_at is not None and expires_at <= clock.now():
        message = _("Select a future time.")
        raise Invalid(message, errors=[FieldError("expires_at", "past", message)])
    key, token = _make(user, name=name, scopes=list(scopes), expires_at=expires_at)
    _note(acting_user, "create", key)
    return key, token


@transaction.atomic
def access_key_rotate(*, acting_user: Actor, key: AccessKey, grace_s: int = 0) -> tuple[AccessKey, str]:
    """Replace a key by a new one, with the same name, scopes and lifetime.

    The old key stays valid for `grace_s` seconds, so that its users have time to change. Raises: as
    `access_key_create`; Conflict for a key that has ended or was rotated before.
    """
    key = AccessKey.unscoped.select_for_update(of=("self",)).select_related("user__home").get(pk=key.pk)
    _require_owner(acting_user, key.user)
    now = clock.now()
    ended = key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now)
    if ended or key.replaced_by_id is not None:
        raise Conflict(_("The access key expired or was rotated. Create a new one."), code="KEY_ENDED")
    life = key.expires_at - key.created_at if key.expires_at else None
    made, token = _make(
        key.user, name=key.name, scopes=key.scopes, expires_at=now + life if life is not None else None
    )
    end = now + timedelta(seconds=min(grace_s, GRACE_MAX_S))
    key.replaced_by = made
    key.expires_at = min(end, key.expires_at) if key.expires_at else end
    key.save(update_fields=["replaced_by", "expires_at"])
    _note(acting_user, "rotate", key, after={"name": key.name, "prefix": key.prefix, "new": made.prefix})
    return made, token


def _make(user: User, *, name: str, scopes: list[str], expires_at: datetime | None) -> tuple[AccessKey, str]:
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = AccessKey.unscoped.create(
        user=user,
        name=name,
        prefix=prefix,
        secret_hash=_hash(secret),
        scopes=scopes,
        expires_at=expires_at,
    )
    return key, f"{_MARK}_{prefix}_{secret}"


@transaction.atomic
def access_key_revoke(*, acting_user: Actor, key: AccessKey) -> None:
    """Revoke a key immediately. Raises: as `access_key_create`."""
    _require_owner(acting_user, key.user)
    if AccessKey.unscoped.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=clock.now()):
        _note(acting_user, "revoke", key)


def _require_owner(acting_user: Actor, user: User) -> None:
    if isinstance(acting_user, User) and acting_user.must_change_password:
        raise PermissionDenied(_("Change your initial password first."), code="PASSWORD_CHANGE_REQUIRED")
    if user.is_service:
        require_manage(acting_user, user)
        return
    if acting_user.pk != user.pk:
        permissions.require_permission(acting_user, Permission.MEMBER_EDIT)
    # Own keys are checked too: a key with scopes must not create a key that could do more.
    permissions.require_over(acting_user, user)


def _note(actor: Actor, verb: str, key: AccessKey, after: dict[str, str] | None = None) -> None:
    audit_log.record_action(
        actor,
        f"access-key.{verb}",
        entity="access-key",
        entity_id=key.pk,
        tenant_id=key.user.home_id,
        after=after or {"name": key.name, "prefix": key.prefix, "user": key.user.username},
    )


@row_scope.whole()
def access_key_check(token: str) -> AccessKey | None:
    """Return the valid key of a token, or None. Records its use at most once a minute."""
    mark, _mark, rest = token.partition("_")
    prefix, _mark, secret = rest.partition("_")
    if mark != _MARK or not secret:
        return None
    key = _LIVE.fetch_first(prefix)
    if key is None or not hmac.compare_digest(key.secret_hash, _hash(secret)):
        return None
    now = clock.now()
    if not key.user.is_active or (key.expires_at is not None and key.expires_at <= now):
        return None
    if key.last_used_at is None or now - key.last_used_at > _TOUCH_EVERY:
        # The condition is repeated in the statement, so that of many concurrent requests only one writes.
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - _TOUCH_EVERY)
        AccessKey.unscoped.filter(stale, pk=key.pk).update(last_used_at=now)
    return key
