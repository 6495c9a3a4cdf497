from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """Alert rules on metrics and platform facts, and notifications by webhook, email and chat robots."""

    name = "alerts"
    verbose_name = "Alerts"

    def ready(self) -> None:
        from alerts import wiring  # noqa: PLC0415 (models are loaded only from here on)

        wiring.declare_own()
