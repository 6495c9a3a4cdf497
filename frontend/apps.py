from django.apps import AppConfig


class FrontendConfig(AppConfig):
    """The web console."""

    name = "frontend"
    verbose_name = "Console"

    def ready(self) -> None:
        from foundation.core.lazy_import import defer_import  # noqa: PLC0415 (models are loaded from here on)
        from scheduling.hooks import recommendation_texts  # noqa: PLC0415 (as above)

        recommendation_texts.register_describer(
            defer_import("frontend.texts.recommendations:plain_recommendations")
        )
