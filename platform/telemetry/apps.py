from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    """The app of measured GPU use: samples, series, roll-ups."""

    name = "telemetry"
    verbose_name = "Telemetry"

    def ready(self) -> None:
        from foundation.core.lazy_import import defer_import  # noqa: PLC0415 (models are loaded from here on)
        from quotas.hooks import request_evidence  # noqa: PLC0415 (as above)
        from scheduling.hooks import measured_use  # noqa: PLC0415 (as above)

        request_evidence.register_provider(
            "idle", defer_import("telemetry.series.readings.idle_hours:idle_evidence")
        )
        measured_use.register_source(defer_import("telemetry.series.readings.now:memory_now"))
