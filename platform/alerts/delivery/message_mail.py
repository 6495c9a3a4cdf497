"""Email about the jobs that users watch, in addition to the message in the console."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.utils.translation import gettext as _

from alerts.delivery.message_text import write_title
from alerts.delivery.messages import plain_text
from alerts.delivery.transports import DeliveryError, is_email_configured, send_email
from alerts.models import UserMessage
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.services.language import use_language_of

log = structlog.get_logger(__name__)
_IN_ONE_RUN: Final = 20
_NEWS: Final = timedelta(days=1)
"""The age at which an unsent message is no longer sent by email."""


def mail_messages(now: datetime) -> int:
    """Send one email for each message that is due; returns how many the mail server accepted.

    A message stays due until the mail server accepted it; the next run tries again. A failure ends the run.
    """
    due = UserMessage.unscoped.filter(mail_due=True)
    if not is_email_configured():
        due.update(mail_due=False)
        return 0
    due.filter(created_at__lt=now - _NEWS).update(mail_due=False)
    sent = 0
    for message in due.select_related("user", "tenant").order_by("pk")[:_IN_ONE_RUN]:
        # Only the process that recorded the sending sends the email.
        if not UserMessage.unscoped.filter(pk=message.pk, mail_due=True).update(mail_due=False):
            continue
        if not _may_be_sent(message):
            continue
        try:
            _send(message)
        except DeliveryError as error:
            UserMessage.unscoped.filter(pk=message.pk).update(mail_due=True)
            log.warning("message not sent by email", message_id=str(message.pk), why=str(error))
            break
        sent += 1
    return sent


def _may_be_sent(message: UserMessage) -> bool:
    """Return whether the user is active, has an email address and may still view the job."""
    user = message.user
    may_see = permissions.has_permission(user, Permission.JOB_VIEW, message.tenant)
    return user.is_active and bool(user.email) and may_see


def _send(message: UserMessage) -> None:
    with use_language_of(message.user):
        title = plain_text(write_title(message))
        lines = [title]
        if message.tenant is not None:
            lines.append(_("Workspace: %(name)s") % {"name": plain_text(message.tenant.name)})
        lines.append(_("You chose to be notified about this job."))
    if settings.ALLOTMENT_URL and message.path:
        lines.append(f"{settings.ALLOTMENT_URL.rstrip('/')}{message.path}")
    send_email([message.user.email], title, "\n\n".join(lines), message_id=f"message-{message.pk}")
