"""Email to the owners of idle jobs before the idle policy of their workspace acts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.delivery.messages import plain_text
from alerts.delivery.transports import DeliveryError, is_email_configured, send_email
from scheduling.models import IdleAction, IdleStretch, JobState
from tenants.services.language import use_language_of

log = structlog.get_logger(__name__)
_IN_ONE_RUN: Final = 20
_SENTENCES: Final = {
    IdleAction.SUSPEND: gettext_lazy("The GPUs of %(job)s are idle: it will be suspended in %(minutes)s min"),
    IdleAction.SHRINK: gettext_lazy(
        "The GPUs of %(job)s are idle: it will be scaled down or suspended in %(minutes)s min"
    ),
    IdleAction.PREEMPTIBLE: gettext_lazy(
        "The GPUs of %(job)s are idle: it will be made preemptible in %(minutes)s min"
    ),
}


def mail_idle_owners(now: datetime) -> int:
    """Send one email for each warning of an idle job; return how many the mail server accepted.

    A warning stays unsent until the mail server accepted it; the next run tries again. A failure ends the
    run. Owners without an address, and those of closed accounts, get no email.
    """
    if not is_email_configured():
        return 0
    unsent = IdleStretch.unscoped.filter(
        job__state=JobState.RUNNING,
        job__submitted_by__is_active=True,
        warned_at__isnull=False,
        notified_at__isnull=True,
        acted_at__isnull=True,
    ).exclude(job__submitted_by__email="")
    sent = 0
    for row in unsent.select_related("job__workspace", "job__submitted_by").order_by("pk")[:_IN_ONE_RUN]:
        # Only the process that recorded the sending sends the email.
        if not IdleStretch.unscoped.filter(pk=row.pk, notified_at=None).update(notified_at=now):
            continue
        try:
            _send(row, now)
        except DeliveryError as error:
            IdleStretch.unscoped.filter(pk=row.pk).update(notified_at=None)
            log.warning("idle warning not sent", job=str(row.job_id), why=str(error))
            break
        sent += 1
    return sent


def _send(row: IdleStretch, now: datetime) -> None:
    left = (row.act_at or now) - now
    values = {
        "job": plain_text(f"{row.job.workspace.slug}/{row.job.name}"),
        "minutes": max(0, round(left / timedelta(minutes=1))),
    }
    with use_language_of(row.job.submitted_by):
        lines = [
            str(_SENTENCES[IdleAction(row.action)]) % values,
            _("To prevent this, use the GPUs or extend the time on the page of the job."),
        ]
    if settings.ALLOTMENT_URL:
        lines.append(f"{settings.ALLOTMENT_URL}/w/{row.job.workspace.slug}/jobs/{row.job_id}")
    message_id = f"idle-{row.pk}-{row.extensions}"
    send_email([row.job.submitted_by.email], lines[0], "\n\n".join(lines), message_id=message_id)
