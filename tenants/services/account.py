"""User accounts: creating, closing and unlocking them, and their passwords."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from axes.utils import reset as axes_reset
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid, PermissionDenied
from foundation.core.sentences import join_sentences
from foundation.sql.versions import advance_version, require_current
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.hooks.signals import password_changed
from tenants.models import AccessKey, User
from tenants.services.last_admin import require_admin_left


class WrongPassword(Invalid):
    """The old password is not the account's."""


@dataclass(frozen=True, slots=True)
class AccessEnd:
    """The access of an account that was ended: whether its sessions ended, and how many keys."""

    user: User
    sessions_ended: bool
    keys_revoked: int


@dataclass(frozen=True, slots=True)
class PasswordReset:
    """The result of a new one-time password: when it expires, and the state of the account's access keys."""

    user: User
    password_expires_at: datetime
    keys_revoked: int
    keys_kept: int


@transaction.atomic
def user_create(
    *,
    acting_user: Actor,
    username: str,
    password: str,
    must_change_password: bool,
    email: str = "",
    expires: bool = True,
) -> User:
    """Create an account without permissions; `member_set` gives it a role.

    A password that must be changed expires after ALLOTMENT_ONE_TIME_PASSWORD_HOURS, unless `expires` is
    false. Raises: PermissionDenied; Invalid for the name or a password against the rules; Conflict when the
    name is taken.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT)
    require_free_username(username, email)
    require_good_password(password, User(username=username, email=email))
    user = User.objects.create_user(username=username, password=password, email=email)
    user.must_change_password = must_change_password
    user.password_expires_at = one_time_end() if must_change_password and expires else None
    user.save(update_fields=["must_change_password", "password_expires_at"])
    _note(acting_user, "create", user, after={"username": username})
    return user


def user_set_active(*, acting_user: Actor, user: User, active: bool, expected: int | None = None) -> User:
    """Close an account or reopen it. A closed account cannot sign in; its keys and sessions end immediately.

    Raises: PermissionDenied; PreconditionFailed; Conflict for the last admin of the platform.
    """
    require_account(acting_user, user)
    with require_admin_left():
        require_current(user, expected)
        if user.is_active != active:
            advance_version(user, expected=expected)
            user.is_active = active
            user.save(update_fields=["is_active"])
            _note(acting_user, "open" if active else "close", user)
    return user


@transaction.atomic
def user_unlock(*, acting_user: Actor, user: User) -> int:
    """Remove the locks of a user after too many wrong passwords; return the number of locks.

    Raises: PermissionDenied.
    """
    require_account(acting_user, user)
    found = int(axes_reset(username=user.username))
    _note(acting_user, "unlock", user)
    return found


@transaction.atomic
def user_end_access(
    *, acting_user: Actor, user: User, sessions: bool = True, keys: bool = True, expected: int | None = None
) -> AccessEnd:
    """End the sessions of an account, revoke its access keys, or both; its password and roles stay.

    Raises: PermissionDenied; PreconditionFailed; Conflict for the actor's own sessions, which signing out
    ends.
    """
    require_account(acting_user, user)
    if sessions and acting_user.pk == user.pk:
        raise Conflict(_("Sign out to end your own session."), code="OWN_SESSIONS")
    advance_version(user, expected=expected)
    if sessions:
        user.sessions_ended += 1
        user.save(update_fields=["sessions_ended"])
    live = AccessKey.unscoped.filter(user=user, revoked_at__isnull=True)
    revoked = live.update(revoked_at=clock.now()) if keys else 0
    _note(acting_user, "end-access", user, after={"sessions_ended": sessions, "keys_revoked": revoked})
    return AccessEnd(user, sessions, revoked)


@transaction.atomic
def password_set(*, acting_user: Actor, user: User, password: str, keep_keys: bool = False) -> PasswordReset:
    """Set a one-time password of another user, who must change it before anything else.

    Their sessions end, and so do their access keys unless `keep_keys`: they may have been created with a
    stolen password. Raises: PermissionDenied; Conflict for the actor's own password, which requires the old
    one; Invalid against the rules, or for an account that has no password.
    """
    require_account(acting_user, user)
    if user.is_service:
        message = _("Service accounts have no password. Use access keys.")
        raise Invalid(message, errors=[FieldError("user", "service", message)])
    if acting_user.pk == user.pk:
        raise Conflict(_("Use your current password to change your own password."), code="OWN_PASSWORD")
    require_good_password(password, user)
    advance_version(user, expected=None)
    user.must_change_password = True
    user.password_expires_at = end = one_time_end()
    _set(user, password)
    keys = AccessKey.unscoped.filter(user=user, revoked_at__isnull=True)
    revoked = 0 if keep_keys else keys.update(revoked_at=clock.now())
    _note(acting_user, "password-set", user, after={"keys_revoked": revoked})
    return PasswordReset(user, end, keys_revoked=revoked, keys_kept=keys.count())


@transaction.atomic
def password_change(*, acting_user: User, old_password: str, new_password: str) -> None:
    """Change the user's own password. All sessions end but that of the current page.

    Raises: WrongPassword for the old one; Invalid when the new one is the old one or against the rules;
    PermissionDenied with code PASSWORD_EXPIRED for a one-time password that was not changed in time.
    """
    if not acting_user.check_password(old_password):
        message = _("Current password is incorrect.")
        raise WrongPassword(message, errors=[FieldError("old", "wrong", message)])
    if acting_user.password_expired:
        raise PermissionDenied(
            _("This one-time password has expired. Contact a platform admin."),
            code="PASSWORD_EXPIRED",
        )
    if new_password == old_password:
        message = _("The new password must differ from the current one.")
        raise Invalid(message, errors=[FieldError("new", "same", message)])
    require_good_password(new_password, acting_user, field="new")
    advance_version(acting_user, expected=None)
    acting_user.must_change_password = False
    acting_user.password_expires_at = None
    _set(acting_user, new_password)
    _note(acting_user, "password", acting_user)
    username = acting_user.get_username()
    transaction.on_commit(lambda: password_changed.send(User, username=username))


def require_account(actor: Actor, user: User) -> None:
    """Check that `actor` may change the account. Raises: PermissionDenied."""
    permissions.require_permission(actor, Permission.MEMBER_EDIT)
    permissions.require_over(actor, user)


def _set(user: User, password: str) -> None:
    # Sessions carry a hash of the password's hash, so this write invalidates all others.
    user.set_password(password)
    user.save(update_fields=["password", "must_change_password", "password_expires_at"])


def one_time_end() -> datetime:
    """Return the time until which a one-time password or an invitation issued now is valid."""
    return clock.now() + timedelta(hours=settings.ALLOTMENT_ONE_TIME_PASSWORD_HOURS)


def require_good_password(password: str, user: User, *, field: str = "password") -> None:
    """Check a new password against the rules. Raises: Invalid naming `field`."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        found = [FieldError(field, str(e.code or "invalid"), str(e.messages[0])) for e in error.error_list]
        raise Invalid(join_sentences(e.message for e in found), errors=found) from error


def require_free_username(username: str, email: str) -> None:
    """Check the user name and email address of a new account.

    Raises: Invalid for a name or an address against the rules; Conflict with code NAME_TAKEN.
    """
    try:
        User(username=username, email=email).clean_fields(exclude=["password"])
    except ValidationError as error:
        found = [
            FieldError(field, str(e.code or "invalid"), str(e.messages[0]))
            for field, errors in error.error_dict.items()
            for e in errors
        ]
        raise Invalid(join_sentences(e.message for e in found), errors=found) from error
    if User.objects.filter(username__iexact=username).exists():
        message = _("User %(name)s already exists.") % {"name": username}
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("username", "taken", message)])


def _note(actor: Actor, verb: str, user: User, **change: Any) -> None:
    audit_log.record_action(actor, f"user.{verb}", entity="user", entity_id=user.pk, **change)
