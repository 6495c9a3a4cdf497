"""Leases: one process at a time works on a cell or a cluster.

A lease alone never guarantees exclusion: a holder may be paused beyond its time. So each acquisition raises
the row's `epoch`, and a commit checks the epoch again under the row's lock; a stale holder then changes
nothing. Times are the database's own, not the worker's.

Work may take longer than a lease lasts, so it is renewed concurrently, a limited number of times: a worker
that hangs must lose it some time.

Requests to a cluster carry no epoch that the cluster would check. So a sender calls `require_held` first,
which uses the machine's own clock: a worker that was paused beyond its lease sends nothing when it resumes. A
worker paused between that check and the request still sends it, so a late request has to be harmless by
itself.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final, Generic, TypeVar

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from foundation.messaging.delayed_calls import delayed_calls
from foundation.models import Leased
from foundation.sql.prepared import PreparedQuery, PreparedUpdate

log = structlog.get_logger(__name__)
LeasedRow = TypeVar("LeasedRow", bound=Leased)

RENEWALS_PER_LEASE: Final = 3
RENEWALS_MAX: Final = 60
"""With leases of 30 s: work that takes longer than ten minutes counts as hung."""
_JOIN_S: Final = 5.0
# A clock that continues while the machine is suspended, if there is one.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(slots=True)
class _LeaseHold:
    """A lease as its holder knows it: valid until a time of the machine's own clock, in seconds."""

    until: float


_hold: ContextVar[_LeaseHold | None] = ContextVar("hold", default=None)


class LeaseLost(RuntimeError):
    """Another process has taken the lease; no decision of this process may be written."""


def require_held() -> None:
    """Check that the lease under which the caller runs, if any, has not expired.

    Raises: LeaseLost.
    """
    hold = _hold.get()
    if hold is not None and _seconds() > hold.until:
        raise LeaseLost("the lease ran out while its holder was away")


def _seconds() -> float:
    return time.clock_gettime(_CLOCK)


def _holder() -> str:
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class _Rows(Generic[LeasedRow]):
    """The prepared statements for leases on the rows of one model: by key, and all but `lock` by holder."""

    epoch: PreparedQuery[tuple[int]]
    give_back: PreparedUpdate
    lock: PreparedQuery[LeasedRow]


@lru_cache
def _rows(model: type[LeasedRow]) -> _Rows[LeasedRow]:
    def own_row(pk: uuid.UUID, holder: str) -> QuerySet[LeasedRow]:
        return model._base_manager.filter(pk=pk, lease_holder=holder).order_by()

    return _Rows(
        PreparedQuery(lambda pk, holder: own_row(pk, holder).values_list("epoch")),
        PreparedUpdate(own_row, lambda pk, holder: {"lease_until": None}),
        PreparedQuery(lambda pk: model._base_manager.select_for_update().filter(pk=pk).order_by()),
    )


@lru_cache
def _taking(model: type[Leased], seconds: float) -> PreparedUpdate:
    """Return the update that takes a free lease: by the row's key and the new holder's name."""
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
    until = Now() + timedelta(seconds=seconds)
    return PreparedUpdate(
        lambda pk, holder: model._base_manager.filter(free, pk=pk).order_by(),
        lambda pk, holder: {"lease_holder": holder, "lease_until": until, "epoch": F("epoch") + 1},
    )


@contextmanager
def hold_lease(model: type[LeasedRow], pk: uuid.UUID) -> Iterator[int | None]:
    """Hold the lease of one row during the block; yield the epoch, or None if another process holds it.

    The lease of a holder that dies ends after `ALLOTMENT_LEASE_S` seconds; then another process may take it.
    During the block the lease is renewed, `RENEWALS_MAX` times at most.
    """
    holder, seconds = _holder(), settings.ALLOTMENT_LEASE_S
    rows = _rows(model)
    hold = _LeaseHold(_seconds() + seconds)  # read before the database's clock, so it is never later
    if not _taking(model, seconds)(pk, holder):
        yield None
        return
    # Only while the row still names this holder: after a pause the epoch may be a successor's.
    (epoch,) = rows.epoch.fetch_first(pk, holder) or (None,)
    before = _hold.set(hold)
    try:
        with _renewed(model, pk, holder, seconds, hold):
            yield epoch
    finally:
        _hold.reset(before)
        rows.give_back(pk, holder)


def renew_lease(model: type[LeasedRow], pk: uuid.UUID, holder: str, seconds: float) -> bool:
    """Extend a lease to `seconds` from now; return False if it is no longer the holder's."""
    # A lease that was released meanwhile stays released.
    own = model._base_manager.filter(pk=pk, lease_holder=holder, lease_until__isnull=False)
    return bool(own.update(lease_until=Now() + timedelta(seconds=seconds)))


@contextmanager
def _renewed(
    model: type[LeasedRow], pk: uuid.UUID, holder: str, seconds: float, hold: _LeaseHold
) -> Iterator[None]:
    """Renew the lease during the block, in a thread with its own connection if the block takes that long.

    Most blocks end before: a thread for each would take a fifth of a scheduling cycle.
    """
    done, every_s = threading.Event(), seconds / RENEWALS_PER_LEASE

    def keep_renewing() -> None:
        for _ in range(RENEWALS_MAX):
            until = _seconds() + seconds
            try:
                if not renew_lease(model, pk, holder, seconds):
                    return
                hold.until = until
            except DatabaseError as error:
                log.warning("lease not renewed", row=f"{model.__name__} {pk}", why=str(error))
            finally:
                connection.close()
            if done.wait(every_s):
                return

    thread = threading.Thread(target=keep_renewing, name=f"lease of {model.__name__} {pk}", daemon=True)
    begun = delayed_calls.call_later(every_s, thread.start)
    try:
        yield
    finally:
        delayed_calls.cancel_call(begun)
        done.set()
        if thread.is_alive():
            thread.join(_JOIN_S)


def lock_current(model: type[LeasedRow], pk: uuid.UUID, epoch: int) -> LeasedRow:
    """Lock the row inside the caller's transaction and check that the epoch is still current.

    Raises: LeaseLost if another process has taken the lease since.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a lock lasts no longer than its transaction")
    row: LeasedRow = _rows(model).lock(pk)[0]
    if row.epoch != epoch:
        raise LeaseLost(f"{model.__name__} {pk}: epoch {epoch} is stale, now {row.epoch}")
    return row
