"""Notifications as texts in the language of a channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _

from alerts.delivery.message_text import describe_job_event, write_title
from alerts.delivery.templates import MessageTemplates, fill_template
from alerts.metrics.base import Unit
from alerts.metrics.catalogue import BY_NAME
from alerts.metrics.subject_names import name_subject
from alerts.models import Alert, AlertSeverity, Comparison, Notification, NotificationEvent
from foundation.core import clock
from foundation.models.branding import read_branding

_USUAL: Final = MessageTemplates()
_TITLE_MAX: Final = 400
# Names come from users. In a robot's message they must not act as markup or as mentions of users.
_PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("\r\n\t\x00", " "),
        **{
            "<": "‹",
            ">": "›",
            "[": "(",
            "]": ")",
            "`": "'",
            "*": "∗",
            "_": "＿",
            "#": "＃",
            "@": "＠",
            "|": "¦",
        },
        **{"\\": "/", "~": "∼", "!": "ǃ"},
    }
)


@dataclass(frozen=True, slots=True)
class Item:
    """One alert or job of a message: names in `title` and `lines` are escaped and are no markup.

    `is_custom`: the texts are those of the templates of the channel.
    """

    notification: Notification
    title: str
    lines: tuple[str, ...]
    url: str
    is_custom: bool = False


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """The content of one request to a channel."""

    message_id: str
    title: str
    items: tuple[Item, ...]
    language: str


def plain_text(text: str) -> str:
    """Return a text in which nothing is markup, mention or line break for any of the channels."""
    return text.translate(_PLAIN)


def format_value(metric: str, value: float | None) -> str:
    """Return a value with the unit of its metric; an en dash for an unknown value."""
    if value is None:
        return "–"
    known = BY_NAME.get(metric)
    unit = known.unit if known is not None else Unit.COUNT
    if unit is Unit.SECONDS:
        return format_seconds(value)
    number = f"{value:.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.1f}"
    return f"{number}%" if unit is Unit.PERCENT else f"{number} {unit}".strip()


def format_seconds(seconds: float) -> str:
    """Return a duration in at most two units, such as `1 h 5 min`."""
    whole = int(seconds)
    parts = (
        (whole // 86400, _("%(number)d d")),
        (whole // 3600 % 24, _("%(number)d h")),
        (whole // 60 % 60, _("%(number)d min")),
        (whole % 60, _("%(number)d s")),
    )
    shown = [unit % {"number": number} for number, unit in parts if number]
    return " ".join(shown[:2]) or _("%(number)d s") % {"number": 0}


def describe_condition(alert: Alert) -> str:
    """Return the condition of an alert's rule in words."""
    known = BY_NAME.get(alert.metric)
    words = {
        "metric": str(known.label) if known is not None else alert.metric,
        "threshold": format_value(alert.metric, alert.threshold),
    }
    if alert.comparison == Comparison.ABOVE:
        return _("%(metric)s: more than %(threshold)s") % words
    return _("%(metric)s: less than %(threshold)s") % words


def write_message(
    notifications: Sequence[Notification],
    *,
    message_id: str,
    language: str,
    templates: MessageTemplates = _USUAL,
    test: bool = False,
) -> ChannelMessage:
    """Return the message of notifications in a language, by the templates of a channel."""
    with translation.override(language):
        items = tuple(_write_item(each, templates) for each in notifications)
        if test:
            title = _("Test message from %(product)s") % {"product": read_branding().display_name}
        elif len(items) == 1:
            title = items[0].title
        else:
            words = {"product": read_branding().display_name, "count": len(items)}
            title = _("%(product)s: %(count)d notifications") % words
        return ChannelMessage(message_id, title, items, language)


def write_sample(templates: MessageTemplates, *, language: str) -> Item:
    """Return a sample alert rendered with the templates. Raises: ValueError for an invalid template."""
    now = clock.now()
    alert = Alert(
        rule_name="Long wait",
        metric="job.pending_s",
        comparison=Comparison.ABOVE,
        threshold=3600,
        severity=AlertSeverity.WARNING,
        subject="sample",
        label="team-a/train-resnet",
        path="/w/team-a/jobs/train-resnet",
        started_at=now,
        fired_at=now,
    )
    sample = Notification(alert=alert, event=NotificationEvent.FIRING, value=4500)
    with translation.override(language):
        return _write_item(sample, templates)


def _write_item(notification: Notification, templates: MessageTemplates) -> Item:
    alert = notification.alert
    if alert is None:
        return _write_job_item(notification)
    usual = _write_usual_item(notification, alert)
    if templates == _USUAL:
        return usual
    values = _list_values(notification, alert, usual.url)
    # A title of only variables without a value here would be empty, and receivers refuse an empty title.
    title = " ".join(fill_template(templates.title, values).split())[:_TITLE_MAX] or usual.title
    lines = tuple(fill_template(templates.body, values).splitlines()) if templates.body else usual.lines
    return Item(notification, title, lines, usual.url, is_custom=True)


def _write_job_item(notification: Notification) -> Item:
    """Return the usual text about a job, because templates have variables of alerts."""
    job = notification.job
    if job is None:
        raise ValueError("a notification is about an alert or a job")
    message = describe_job_event(job, notification.event)
    lines = (plain_text(job.workspace.name),)
    return Item(notification, plain_text(write_title(message)), lines, _url(message.path))


def _list_values(notification: Notification, alert: Alert, url: str) -> dict[str, str]:
    """Return the values of `templates.VARIABLES`; names in them act neither as markup nor as mentions."""
    return {
        "severity": str(AlertSeverity(alert.severity).label),
        "state": str(NotificationEvent(notification.event).label),
        "rule": plain_text(alert.rule_name),
        "subject": plain_text(name_subject(alert.metric, alert.label)),
        "tenant": plain_text(alert.tenant.name) if alert.tenant else "",
        "cluster": getattr(notification, "cluster_name", None) or "",
        "condition": plain_text(describe_condition(alert)),
        "value": format_value(alert.metric, notification.value),
        "fired_at": _time(alert.fired_at),
        "resolved_at": _time(alert.resolved_at),
        "url": url,
    }


def _write_usual_item(notification: Notification, alert: Alert) -> Item:
    words: dict[str, Any] = {
        "severity": AlertSeverity(alert.severity).label,
        "rule": plain_text(alert.rule_name),
        "subject": plain_text(name_subject(alert.metric, alert.label)),
    }
    if notification.event == NotificationEvent.RESOLVED:
        title = _("Resolved: %(rule)s, %(subject)s") % words
    else:
        title = _("%(severity)s: %(rule)s, %(subject)s") % words
    lines = [
        plain_text(describe_condition(alert)),
        _("Value: %(value)s") % {"value": format_value(alert.metric, notification.value)},
        _("Fired: %(time)s") % {"time": _time(alert.fired_at)},
    ]
    if notification.event == NotificationEvent.RESOLVED:
        lines.append(_("Resolved: %(time)s") % {"time": _time(alert.resolved_at)})
    return Item(notification, title, tuple(lines), _url(alert.path))


def _time(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at is not None else "–"


def _url(path: str) -> str:
    base: str = settings.ALLOTMENT_URL
    return f"{base.rstrip('/')}{path}" if base and path else ""
