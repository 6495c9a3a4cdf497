"""The one place that reads the time, so that a test can stop it and nobody else needs to."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    """Return the current time, aware and in UTC."""
    return timezone.now()
