"""Tasks that Celery beat starts. Each is safe to run twice, late, and concurrently."""

from __future__ import annotations

from celery import shared_task

from alerts.delivery.deliver import deliver_notifications
from alerts.delivery.idle_mail import mail_idle_owners
from alerts.delivery.message_mail import mail_messages
from alerts.evaluation.evaluate import evaluate_rules
from alerts.evaluation.notifications import create_notifications
from alerts.evaluation.user_events import create_user_messages
from alerts.services.prune import prune_alerts
from foundation.core import clock


@shared_task(name="alerts.tasks.evaluate_alert_rules")
def evaluate_alert_rules() -> None:
    """Evaluate all rules and create the resulting notifications."""
    evaluate_rules(clock.now())
    create_notifications(clock.now())


@shared_task(name="alerts.tasks.deliver_messages")
def deliver_messages() -> None:
    """Send the channels' notifications, create messages about jobs and requests, and email users."""
    deliver_notifications(clock.now())
    create_user_messages(clock.now())
    mail_messages(clock.now())
    mail_idle_owners(clock.now())


@shared_task(name="alerts.tasks.prune_resolved")
def prune_resolved() -> None:
    """Delete resolved alerts whose retention has ended."""
    prune_alerts(clock.now())
