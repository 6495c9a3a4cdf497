from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Jobs from submission to their end: snapshot, engine, commit, execution."""

    name = "scheduling"
    verbose_name = "Scheduling"

    def ready(self) -> None:
        from scheduling import wiring  # noqa: PLC0415 (models are loaded only from here on)

        wiring.connect_hooks()
