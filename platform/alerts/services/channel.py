"""Creates, changes, tests and deletes notification channels."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from alerts.delivery.console_messages import split_names
from alerts.delivery.messages import write_message
from alerts.delivery.templates import BODY_MAX, TITLE_MAX, find_problem
from alerts.delivery.transports import DeliveryError, is_email_configured, send_message
from alerts.models import ChannelKind, NotificationChannel
from alerts.services.access import may_view_alerts, require_edit
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.sealed_text import seal_text
from foundation.sql import row_scope
from foundation.sql.versions import advance_version
from foundation.web.outgoing import AddressNotAllowed, check_url
from tenants.models import Tenant, User

CHANNELS_MAX: Final = 50
ADDRESS_MAX: Final = 2000
_RECIPIENTS_MAX: Final = 20
_PLAIN: Final = ("name", "language", "title_template", "body_template", "sends_job_watches", "enabled")


@transaction.atomic
def create_channel(
    *,
    acting_user: Actor,
    tenant: Tenant | None,
    name: str,
    kind: ChannelKind,
    address: str,
    secret: str = "",
    language: str = "",
    title_template: str = "",
    body_template: str = "",
    sends_job_watches: bool = False,
    enabled: bool = True,
) -> NotificationChannel:
    """Create a channel of a tenant, or of the platform if `tenant` is None. Nothing is sent yet.

    Raises: NotFound, PermissionDenied; Invalid; Conflict for a name that is taken or too many channels.
    """
    require_edit(acting_user, tenant)
    channel = NotificationChannel(
        tenant=tenant,
        name=name.strip(),
        kind=kind,
        enabled=enabled,
        language=language or get_language() or "en",
        title_template=title_template.strip(),
        body_template=body_template.strip(),
        sends_job_watches=sends_job_watches,
    )
    _check_name(channel)
    _check_job_watches(channel)
    _check_templates(channel)
    _set_address(channel, address)
    channel.sealed_secret = seal_text(secret)
    if NotificationChannel.unscoped.filter(tenant=tenant).count() >= CHANNELS_MAX:
        message = _("There are already %(count)d channels.") % {"count": CHANNELS_MAX}
        raise Conflict(message, code="TOO_MANY_CHANNELS")
    channel.save()
    _record(acting_user, "notification-channel.create", channel, before={}, after=_facts(channel))
    return channel


@transaction.atomic
def change_channel(
    *,
    acting_user: Actor,
    channel: NotificationChannel,
    values: dict[str, Any],
    version: int | None = None,
) -> NotificationChannel:
    """Change `_PLAIN` fields, `address` or `secret`. A failing channel is retried at once.

    Raises: NotFound, PermissionDenied; Invalid; Conflict; PreconditionFailed for another version.
    """
    require_edit(acting_user, channel.tenant)
    advance_version(channel, expected=version)
    before = _facts(channel)
    for field in _PLAIN:
        if field in values:
            setattr(channel, field, values[field])
    _check_name(channel)
    _check_job_watches(channel)
    _check_templates(channel)
    if "address" in values:
        _set_address(channel, values["address"])
    if "secret" in values:
        channel.sealed_secret = seal_text(values["secret"])
    channel.retry_at = None
    channel.save(update_fields=[*_PLAIN, "sealed_address", "sealed_secret", "retry_at"])
    after = _facts(channel) | {"replaced": sorted({"address", "secret"} & set(values))}
    _record(acting_user, "notification-channel.change", channel, before=before, after=after)
    return channel


@transaction.atomic
def delete_channel(*, acting_user: Actor, channel: NotificationChannel, version: int | None = None) -> None:
    """Delete a channel with its unsent notifications.

    Raises: NotFound, PermissionDenied; PreconditionFailed for another version.
    """
    require_edit(acting_user, channel.tenant)
    advance_version(channel, expected=version)
    _record(acting_user, "notification-channel.delete", channel, before=_facts(channel), after={})
    channel.delete()


def check_channel(*, acting_user: Actor, channel: NotificationChannel) -> str:
    """Send a test message now and return why it failed, or "" if it was accepted.

    Makes a network call: not for use in a transaction. Raises: NotFound, PermissionDenied.
    """
    require_edit(acting_user, channel.tenant)
    message = write_message(
        [], message_id=uuid.uuid4().hex, language=get_language() or channel.language, test=True
    )
    try:
        send_message(channel, message, now=clock.now())
    except DeliveryError as error:
        problem = str(error)
    else:
        problem = ""
    _record(acting_user, "notification-channel.test", channel, before={}, after={"error": problem})
    return problem


def _check_name(channel: NotificationChannel) -> None:
    if not channel.name.strip():
        message = _("Enter a name.")
        raise Invalid(message, errors=[FieldError("name", "REQUIRED", message)])
    same = NotificationChannel.unscoped.filter(tenant=channel.tenant, name=channel.name)
    if same.exclude(pk=channel.pk).exists():
        message = _("A channel with this name already exists.")
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("name", "EXISTS", message)])


def _check_job_watches(channel: NotificationChannel) -> None:
    if channel.sends_job_watches and (channel.tenant is None or channel.tenant.kind != "workspace"):
        message = _("Only channels of a workspace can send events of watched jobs.")
        raise Invalid(message, errors=[FieldError("sends_job_watches", "NOT_OF_WORKSPACE", message)])


def _check_templates(channel: NotificationChannel) -> None:
    for field, most in (("title_template", TITLE_MAX), ("body_template", BODY_MAX)):
        text = getattr(channel, field)
        problem = find_problem(text)
        if len(text) > most:
            problem = _("Maximum: %(count)d characters.") % {"count": most}
        if problem:
            raise Invalid(problem, errors=[FieldError(field, "INVALID", problem)])


def _set_address(channel: NotificationChannel, address: str) -> None:
    problem = _problem_of(channel, address)
    if problem:
        raise Invalid(problem, errors=[FieldError("address", "INVALID", problem)])
    channel.sealed_address = seal_text(address.strip())


def _problem_of(channel: NotificationChannel, address: str) -> str:
    if channel.kind == ChannelKind.EMAIL:
        return _email_problem(address)
    if channel.kind == ChannelKind.MESSAGE:
        return _names_problem(address, channel.tenant)
    return _url_problem(address)


def _names_problem(address: str, tenant: Tenant | None) -> str:
    """Return why usernames can't be recipients, or "": each must be able to view the alerts of the owner.

    Accounts that don't exist and accounts without that permission give the same message.
    """
    names = split_names(address)
    if not names:
        return _("Enter at least one username.")
    if len(names) > _RECIPIENTS_MAX:
        return _("Maximum: %(count)d recipients.") % {"count": _RECIPIENTS_MAX}
    with row_scope.whole():
        known = {
            user.username
            for user in User.objects.filter(username__in=names, is_active=True)
            if may_view_alerts(user, tenant)
        }
    unknown = [name for name in names if name not in known]
    if unknown:
        return _("%(name)s isn't a user who can view these alerts.") % {"name": unknown[0][:150]}
    return ""


def _url_problem(address: str) -> str:
    try:
        check_url(address.strip())
    except AddressNotAllowed as error:
        return _("Invalid URL: %(problem)s.") % {"problem": error}
    return ""


def _email_problem(address: str) -> str:
    if not is_email_configured():
        return _("Email isn't configured. Ask a platform admin to set ALLOTMENT_SMTP_URL.")
    recipients = [each.strip() for each in address.split(",")]
    if len(recipients) > _RECIPIENTS_MAX:
        return _("Maximum: %(count)d recipients.") % {"count": _RECIPIENTS_MAX}
    for each in recipients:
        try:
            validate_email(each)
        except ValidationError:
            return _("Invalid email address: %(address)s.") % {"address": each[:100]}
    return ""


def _facts(channel: NotificationChannel) -> dict[str, Any]:
    return {
        "name": channel.name,
        "kind": str(channel.kind),
        "language": channel.language,
        "title_template": channel.title_template,
        "body_template": channel.body_template,
        "sends_job_watches": channel.sends_job_watches,
        "enabled": channel.enabled,
    }


def _record(
    acting_user: Actor,
    action: str,
    channel: NotificationChannel,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    audit_log.record_action(
        acting_user,
        action,
        entity="notification-channel",
        entity_id=channel.pk,
        tenant_id=channel.tenant_id,
        before=before,
        after=after,
    )
