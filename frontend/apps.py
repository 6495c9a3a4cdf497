from django.apps import AppConfig


class FrontendConfig(AppConfig):
    """The web console."""

    name = "frontend"
    verbose_name = "Console"
