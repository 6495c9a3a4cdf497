from django.apps import AppConfig


class FoundationConfig(AppConfig):
    """The lowest layer: modules that every package needs and no package owns."""

    name = "foundation"
    verbose_name = "Foundation"

    def ready(self) -> None:
        from foundation.sql import row_scope  # noqa: PLC0415 (reads the drivers' types)

        row_scope.install_scope()
