from django.apps import AppConfig


class FoundationConfig(AppConfig):
    """The lowest layer: what every package needs and no package owns."""

    name = "foundation"
    verbose_name = "Foundation"
