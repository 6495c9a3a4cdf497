"""Tasks that beat starts. Each is safe to run twice, late, and concurrently."""

from __future__ import annotations

from celery import shared_task

from alerts.delivery.deliver import deliver_notifications
from alerts.delivery.idle_mail import mail_idle_owners
from alerts.evaluation.evaluate import evaluate_rules
from alerts.evaluation.notifications import create_notifications
from alerts.services.prune import prune_alerts
from foundation.core import clock


@shared_task(name="alerts.tasks.evaluate_alert_rules")
def evaluate_alert_rules() -> None:
    """Evaluate all rules and create the notifications that follow."""
    evaluate_rules(clock.now())
    create_notifications(clock.now())


@shared_task(name="alerts.tasks.deliver_messages")
def deliver_messages() -> None:
    """Send one message to each channel that has something to send, and email to owners of idle jobs."""
    deliver_notifications(clock.now())
    mail_idle_owners(clock.now())


@shared_task(name="alerts.tasks.prune_resolved")
def prune_resolved() -> None:
    """Delete resolved alerts that are older than they are kept."""
    prune_alerts(clock.now())
