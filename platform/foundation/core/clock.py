"""The one place that reads the time, so that tests can stop it here."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    """Return the current time, aware and in UTC."""
    return timezone.now()
