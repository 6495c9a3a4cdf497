from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """Alert rules on metrics and platform facts, and notifications by webhook, email and chat robots."""

    name = "alerts"
    verbose_name = "Alerts"
