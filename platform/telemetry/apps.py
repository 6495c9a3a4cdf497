from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    """The app of measured GPU use: samples, series, roll-ups."""

    name = "telemetry"
    verbose_name = "Telemetry"

    def ready(self) -> None:
        from quotas.hooks import request_evidence  # noqa: PLC0415 (models are loaded only from here on)
        from scheduling.hooks import measured_use  # noqa: PLC0415 (as above)
        from telemetry.series.idle_hours import idle_evidence  # noqa: PLC0415 (as above)
        from telemetry.series.now import memory_now  # noqa: PLC0415 (as above)

        request_evidence.register_provider("idle", idle_evidence)
        measured_use.register_source(memory_now)
