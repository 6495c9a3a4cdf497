"""Accounts of people: made, closed, unlocked, and their passwords."""

from __future__ import annotations

from typing import Any

from axes.utils import reset as axes_reset
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from foundation import audit
from foundation.actor import Actor
from foundation.errors import Conflict, FieldError, Invalid
from foundation.versions import advance, require_current
from tenants import permissions
from tenants.models import User
from tenants.permissions import Permission
from tenants.services.last_admin import last_admin_kept
from tenants.signals import password_changed


@transaction.atomic
def user_create(
    *, acting_user: Actor, username: str, password: str, must_change_password: bool, email: str = ""
) -> User:
    """Create an account with no rights; `member_set` gives it some.

    Raises: PermissionDenied; Invalid for the name or a password against the rules; Conflict when the name
    is taken.
    """
    permissions.require(acting_user, Permission.MEMBER_EDIT)
    user = User(username=username, email=email)
    _check_fields(user)
    _check_password(password, user)
    if User.objects.filter(username__iexact=username).exists():
        message = _("There is a user named %(name)s already.") % {"name": username}
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("username", "taken", message)])
    user = User.objects.create_user(username=username, password=password, email=email)
    user.must_change_password = must_change_password
    user.save(update_fields=["must_change_password"])
    _note(acting_user, "create", user, after={"username": username})
    return user


def user_set_active(*, acting_user: Actor, user: User, active: bool, expected: int | None = None) -> User:
    """Close an account or open it again. A closed one signs in nowhere; its keys and sessions end at once.

    Raises: PermissionDenied; PreconditionFailed; Conflict for the last admin of the platform.
    """
    _require_over(acting_user, user)
    with last_admin_kept():
        require_current(user, expected)
        if user.is_active != active:
            advance(user, expected=expected)
            user.is_active = active
            user.save(update_fields=["is_active"])
            _note(acting_user, "open" if active else "close", user)
    return user


@transaction.atomic
def user_unlock(*, acting_user: Actor, user: User) -> int:
    """Let somebody try again who typed too many wrong passwords; returns how many locks there were.

    Raises: PermissionDenied.
    """
    _require_over(acting_user, user)
    found = int(axes_reset(username=user.username))
    _note(acting_user, "unlock", user)
    return found


@transaction.atomic
def password_set(*, acting_user: Actor, user: User, password: str) -> User:
    """Give somebody a one-time password; their sessions end, and they must change it first.

    Raises: PermissionDenied; Invalid against the rules, or for an account that has no password.
    """
    _require_over(acting_user, user)
    if user.is_service:
        message = _("A service account has no password; it acts by access keys.")
        raise Invalid(message, errors=[FieldError("user", "service", message)])
    _check_password(password, user)
    advance(user, expected=None)
    user.must_change_password = True
    _set(user, password)
    _note(acting_user, "password-set", user)
    return user


@transaction.atomic
def password_change(*, acting_user: User, old_password: str, new_password: str) -> None:
    """Change one's own password. All sessions end but the one that its page keeps.

    Raises: Invalid when the old password is wrong or the new one against the rules.
    """
    if not acting_user.check_password(old_password):
        message = _("The old password is not right.")
        raise Invalid(message, errors=[FieldError("old", "wrong", message)])
    _check_password(new_password, acting_user, field="new")
    advance(acting_user, expected=None)
    acting_user.must_change_password = False
    _set(acting_user, new_password)
    _note(acting_user, "password", acting_user)
    username = acting_user.get_username()
    transaction.on_commit(lambda: password_changed.send(User, username=username))


def _require_over(actor: Actor, user: User) -> None:
    permissions.require(actor, Permission.MEMBER_EDIT)
    permissions.require_over(actor, user)


def _set(user: User, password: str) -> None:
    # Sessions carry a hash of the password's hash: with this write, all others are no longer valid.
    user.set_password(password)
    user.save(update_fields=["password", "must_change_password"])


def _check_password(password: str, user: User, *, field: str = "password") -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        found = [FieldError(field, str(e.code or "invalid"), str(e.messages[0])) for e in error.error_list]
        raise Invalid(" ".join(e.message for e in found), errors=found) from error


def _check_fields(user: User) -> None:
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        found = [
            FieldError(field, str(e.code or "invalid"), str(e.messages[0]))
            for field, errors in error.error_dict.items()
            for e in errors
        ]
        raise Invalid(" ".join(e.message for e in found), errors=found) from error


def _note(actor: Actor, verb: str, user: User, **change: Any) -> None:
    audit.record(actor, f"user.{verb}", entity="user", entity_id=user.pk, **change)
