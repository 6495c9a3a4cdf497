"""The clock of the machine on which all actors run: the test moves it, and every process sees it at once.

Leases and the breaker of a cluster use it. So a worker loses its lease when the test moves the clock, however
slow the machine really is, and no test waits in real time.
"""

from __future__ import annotations

import mmap
import struct
from functools import partial
from typing import Final

import pytest
from django.conf import settings
from django.db.models.functions import Now

from clusters.backends.kubernetes import backend
from clusters.backends.kubernetes.client.breaker import LONGEST_PAUSE_S, CircuitBreaker
from clusters.models import Cell, Cluster
from foundation.messaging import leases

_SECONDS: Final = struct.Struct("d")


class Machine:
    """A clock in seconds since the machine was switched on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shared = mmap.mmap(-1, _SECONDS.size)  # shared with forks
        monkeypatch.setattr(leases, "_seconds", self.seconds)
        monkeypatch.setattr(backend, "CircuitBreaker", partial(CircuitBreaker, self.seconds))

    def seconds(self) -> float:
        """Return the time of the clock in seconds."""
        shown: float = _SECONDS.unpack_from(self._shared)[0]
        return shown

    def passes(self, seconds: float) -> None:
        """Move the clock forward."""
        _SECONDS.pack_into(self._shared, 0, self.seconds() + seconds)

    def leases_end(self) -> None:
        """Move the clock, also of the database, past the end of every lease that is not renewed."""
        self.passes(max(settings.ALLOTMENT_LEASE_S, LONGEST_PAUSE_S) + 1)
        for model in (Cell, Cluster):
            model.unscoped.filter(lease_until__isnull=False).update(lease_until=Now())
