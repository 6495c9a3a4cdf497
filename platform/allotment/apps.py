"""Makes the composition root an app, for its commands and to tie Celery to every Django process."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig

from allotment.celery import app as celery_app


class AllotmentConfig(AppConfig):
    """Importing the Celery app makes it current wherever Django runs, so `shared_task` finds its broker."""

    name = "allotment"
    verbose_name = "Allotment"
    celery: Any = celery_app

    def ready(self) -> None:
        """Says what readiness means for the parts that only the composition root knows."""
        from allotment import checks  # noqa: PLC0415 (the check of the relay reads a model)

        checks.register()
