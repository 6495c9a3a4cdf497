"""Carrying a change out only to see what it would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction

T = TypeVar("T")


def rehearse(change: Callable[[], T], *, keep: bool) -> T:
    """Run `change`; without `keep` its writes are undone afterwards, events and hints included."""
    if keep:
        return change()
    with transaction.atomic():
        result = change()
        transaction.set_rollback(True)
    return result
