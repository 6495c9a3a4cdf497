from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    """What every GPU really does: samples, series, roll-ups."""

    name = "telemetry"
    verbose_name = "Telemetry"
