"""Invitations: accounts without a password, and the link with which their user chooses one."""

from __future__ import annotations

import hmac
import uuid
from dataclasses import dataclass
from datetime import datetime
from smtplib import SMTPException
from typing import Final

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import translation
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, NotFound
from foundation.models.branding import read_branding
from foundation.sql.versions import advance_version
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.services.account import (
    one_time_end,
    require_account,
    require_free_username,
    require_good_password,
)

log = structlog.get_logger(__name__)
_SALT: Final = "tenants.services.invitation"


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invited account, and the path of the page where its user chooses a password.

    The path can't be read again; a new invitation invalidates an earlier one.
    """

    user: User
    path: str
    expires_at: datetime
    emailed: bool


@transaction.atomic
def user_invite(*, acting_user: Actor, username: str, email: str = "", address: str = "") -> Invitation:
    """Create an account without a password and without permissions, and a link that sets its first password.

    The link is valid once, for ALLOTMENT_ONE_TIME_PASSWORD_HOURS. With an email address and
    ALLOTMENT_SMTP_URL the link is sent too; `address` is that of the console, for the link. Raises:
    PermissionDenied; Invalid for the name; Conflict when the name is taken.
    """
    permissions.require_permission(acting_user, Permission.MEMBER_EDIT)
    require_free_username(username, email)
    user = User.objects.create_user(username=username, password=None, email=email)
    return _invite(acting_user, user, "create", address)


@transaction.atomic
def invitation_renew(
    *, acting_user: Actor, user: User, address: str = "", expected: int | None = None
) -> Invitation:
    """Create a new link in place of the earlier one.

    Raises: PermissionDenied; PreconditionFailed; Conflict for an account that has a password.
    """
    require_account(acting_user, user)
    if not user.is_invited:
        message = _("User %(name)s has already accepted the invitation.")
        raise Conflict(message % {"name": user.username}, code="NOT_INVITED")
    advance_version(user, expected=expected)
    user.set_unusable_password()  # a new random value, from which the link is derived
    return _invite(acting_user, user, "invite", address)


def find_invitation(user_id: uuid.UUID, token: str) -> User:
    """Return the account that an invitation link is for.

    Raises: NotFound for a link that is wrong, used, replaced or expired, or of a disabled account.
    """
    user = User.objects.filter(pk=user_id, is_active=True).first()
    sound = user is not None and hmac.compare_digest(_token_of(user), token)
    if user is None or not sound or not user.is_invited or user.password_expired:
        raise NotFound(_("This invitation is invalid or expired. Ask a platform admin for a new one."))
    return user


@transaction.atomic
def invitation_accept(*, user_id: uuid.UUID, token: str, password: str) -> User:
    """Set the first password of an invited account, once.

    Raises: as `find_invitation`; Invalid for a password against the rules.
    """
    list(User.objects.select_for_update().filter(pk=user_id).values_list("pk"))
    user = find_invitation(user_id, token)
    require_good_password(password, user, field="new")
    advance_version(user, expected=None)
    user.must_change_password, user.password_expires_at = False, None
    user.set_password(password)
    user.save(update_fields=["password", "must_change_password", "password_expires_at"])
    audit_log.record_action(user, "user.accept", entity="user", entity_id=user.pk)
    return user


def _invite(acting_user: Actor, user: User, verb: str, address: str) -> Invitation:
    user.must_change_password = True
    user.password_expires_at = end = one_time_end()
    user.save(update_fields=["password", "must_change_password", "password_expires_at"])
    after = {"username": user.username, "invited": True}
    audit_log.record_action(acting_user, f"user.{verb}", entity="user", entity_id=user.pk, after=after)
    path = f"/invitation/{user.pk}/{_token_of(user)}"
    emailed = bool(user.email and settings.EMAIL_HOST and address)
    if emailed:
        transaction.on_commit(lambda: _send_link(user, f"{address}{path}"))
    return Invitation(user, path, end, emailed)


def _token_of(user: User) -> str:
    # The unusable password is random and new with every invitation, and is replaced when one is accepted.
    value = f"{user.pk}{user.password}"
    return salted_hmac(_SALT, value, algorithm="sha256").hexdigest()


def _send_link(user: User, link: str) -> None:
    """Send the link; a failure is logged, because the inviting user has the link as well."""
    product = read_branding().display_name
    # A user who never signed in gets the email in the language of the inviting user.
    with translation.override(user.language or translation.get_language()):
        subject = _("Invitation to %(product)s") % {"product": product}
        lines = [
            _("You are invited to %(product)s as %(name)s.") % {"product": product, "name": user.username},
            _("Set your password here: %(link)s") % {"link": link},
        ]
        if user.password_expires_at is not None:
            lines.append(
                _("The link expires at %(at)s UTC.") % {"at": f"{user.password_expires_at:%Y-%m-%d %H:%M}"}
            )
    try:
        EmailMessage(subject=subject, body="\n\n".join(lines), to=[user.email]).send()
    except (SMTPException, OSError, ValueError) as error:
        log.warning("an invitation could not be sent", user=str(user.pk), error=type(error).__name__)
