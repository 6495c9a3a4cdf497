"""Leases: one process at a time works on a cell or a cluster.

A lease alone is never the safety argument: a holder may be paused beyond its time. So each taking
raises the row's `epoch`, and whoever commits checks the epoch again under the row's lock; a stale
holder then changes nothing. Times are the database's own, not the worker's.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Now

from foundation.models import Leased

LeasedRow = TypeVar("LeasedRow", bound=Leased)


class LeaseLost(RuntimeError):
    """Another process has taken over; nothing this one decided may be written."""


def _holder() -> str:
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


@contextmanager
def held(model: type[LeasedRow], pk: uuid.UUID) -> Iterator[int | None]:
    """Hold the lease of one row for the block; yields the epoch, or None when somebody else holds it.

    A holder that dies keeps it for `ALLOTMENT_LEASE_S` seconds; then the next one takes over.
    """
    holder, seconds = _holder(), settings.ALLOTMENT_LEASE_S
    rows = model._base_manager.filter(pk=pk)
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
    taken = rows.filter(free).update(
        lease_holder=holder, lease_until=Now() + timedelta(seconds=seconds), epoch=F("epoch") + 1
    )
    if not taken:
        yield None
        return
    # Only while the row still names us: after a pause the epoch may be a successor's.
    epoch = rows.filter(lease_holder=holder).values_list("epoch", flat=True).first()
    try:
        yield epoch
    finally:
        rows.filter(lease_holder=holder).update(lease_until=None)


def lock_current(model: type[LeasedRow], pk: uuid.UUID, epoch: int) -> LeasedRow:
    """Lock the row inside the caller's transaction and check that the epoch still holds.

    Raises: LeaseLost when another process has taken the lease since.
    """
    row: LeasedRow = model._base_manager.select_for_update().get(pk=pk)
    if row.epoch != epoch:
        raise LeaseLost(f"{model.__name__} {pk}: epoch {epoch} is stale, now {row.epoch}")
    return row
