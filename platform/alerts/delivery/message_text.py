"""The texts of messages to users, in the active language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.metrics.subject_names import name_subject
from alerts.models import AlertSeverity, MessageKind, UserMessage
from foundation.models.branding import read_branding
from scheduling.models import Job

_TITLES: Final[Mapping[tuple[str, str], str | Promise]] = {
    (MessageKind.JOB, "started"): gettext_lazy("%(job)s started"),
    (MessageKind.JOB, "succeeded"): gettext_lazy("%(job)s succeeded"),
    (MessageKind.JOB, "failed"): gettext_lazy("%(job)s failed"),
    (MessageKind.JOB, "cancelled"): gettext_lazy("%(job)s was canceled"),
    (MessageKind.PREEMPTION, "preempted"): gettext_lazy("%(job)s was preempted"),
    (MessageKind.PREEMPTION, "shrunk"): gettext_lazy("%(job)s was scaled down by preemption"),
    (MessageKind.REQUEST, "approved"): gettext_lazy("Your quota request for %(tenant)s was approved"),
    (MessageKind.REQUEST, "rejected"): gettext_lazy("Your quota request for %(tenant)s was rejected"),
    (MessageKind.REQUEST, "countered"): gettext_lazy("Changes proposed to your quota request for %(tenant)s"),
    (MessageKind.REQUEST, "expired"): gettext_lazy("Your quota request for %(tenant)s expired"),
    (MessageKind.ALERT, "firing"): gettext_lazy("%(severity)s: %(rule)s, %(subject)s"),
    (MessageKind.ALERT, "reminder"): gettext_lazy("%(severity)s: %(rule)s, %(subject)s"),
    (MessageKind.ALERT, "resolved"): gettext_lazy("Resolved: %(rule)s, %(subject)s"),
    (MessageKind.ALERT, "test"): gettext_lazy("Test message from %(product)s"),
}
"""The title by kind and event; `%(name)s` is replaced by that fact of the message."""


def describe_job_event(job: Job, event: str) -> UserMessage:
    """Return an unsaved message to the user who submitted a job, about one of its events."""
    return UserMessage(
        user_id=job.submitted_by_id,
        tenant=job.workspace,
        kind=MessageKind.JOB,
        event=event,
        facts={"job": job.name},
        path=f"/w/{job.workspace.slug}/jobs/{job.pk}",
    )


def write_title(message: UserMessage) -> str:
    """Return the title of a message: its event, in one line."""
    facts = {"product": read_branding().display_name, **message.facts}
    if "severity" in facts:
        facts["severity"] = str(AlertSeverity(facts["severity"]).label)
    if "subject" in facts:
        facts["subject"] = name_subject(facts.get("metric", ""), facts["subject"])
    title = _TITLES.get((message.kind, message.event))
    return str(title) % facts if title is not None else _("Message")
