"""Running a change only to see its effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction

T = TypeVar("T")


def preview_change(change: Callable[[], T]) -> T:
    """Run `change` and roll back its writes, events, hints and audit rows; its response is the effect."""
    with transaction.atomic():
        result = change()
        transaction.set_rollback(True)
    return result
