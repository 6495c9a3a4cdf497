"""Chooses the settings and reports a wrong variable in one line instead of a traceback."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

DEFAULT_SETTINGS: Final = "allotment.settings.embedded"
USAGE_ERROR: Final = 2


def exit_with_error(message: str, status: int = USAGE_ERROR) -> NoReturn:
    """End the process with one line on standard error."""
    sys.stderr.write(f"allotment: {message}\n")
    raise SystemExit(status)


def choose_settings() -> str:
    """Set and return the settings module of this process; `DJANGO_SETTINGS_MODULE` takes precedence."""
    return os.environ.setdefault("DJANGO_SETTINGS_MODULE", DEFAULT_SETTINGS)


def load_settings() -> None:
    """Read the settings now, so that a wrong variable ends the process with its name and status 2."""
    # Imported here, because the base installation has no Django.
    from django.conf import settings  # noqa: PLC0415
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415

    choose_settings()
    try:
        settings.INSTALLED_APPS  # noqa: B018 - the first access reads the module
    except ImproperlyConfigured as error:
        exit_with_error(str(error))
    except ModuleNotFoundError as error:
        if error.name and os.environ["DJANGO_SETTINGS_MODULE"].startswith(error.name):
            exit_with_error(
                f"DJANGO_SETTINGS_MODULE: there is no module {os.environ['DJANGO_SETTINGS_MODULE']}"
            )
        raise
