"""Makes the composition root an app, for its commands and to tie Celery to every Django process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings

from allotment.celery import app as celery_app
from allotment.setup.accounts import OPERATOR, SIGN_IN_FILE
from tenants.hooks.signals import password_changed


class AllotmentConfig(AppConfig):
    """Imports the Celery app, which makes it current with Django, so that `shared_task` finds its broker."""

    name = "allotment"
    verbose_name = "Allotment"
    celery: Any = celery_app

    def ready(self) -> None:
        """Register the readiness checks of the parts that only the composition root knows."""
        from allotment.requests import languages, sign_ins  # noqa: PLC0415 (both read models)
        from allotment.setup import checks  # noqa: PLC0415 (both read models)

        checks.register_checks()
        sign_ins.connect_signals()
        languages.connect_signals()
        password_changed.connect(_forget_first_password)


def _forget_first_password(sender: object, *, username: str, **_: Any) -> None:
    """Delete the file of the printed one-time password when it is no longer valid."""
    target = Path(settings.ALLOTMENT_HOME) / SIGN_IN_FILE
    if username == OPERATOR:
        target.unlink(missing_ok=True)
