"""Counting broken guarantees: how often a tenant waited for what its own nodes would have given it.

A violation is one stretch of more than the grace period in which the job at the head of its tenant's
queue (by submission, then file row) would fit into the tenant's virtual private cluster, that is the
tenant's own nodes with only the tenant's running jobs on them, packed largest first, and does not run.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduling.engine import stand_together
from scheduling.offline.clock import Record
from scheduling.offline.philly import Tenant

GRACE_S = 60


@dataclass(slots=True)
class _Watch:
    """One tenant: who waits, who runs, and since when the head has had a right to run."""

    tenant: Tenant
    waiting: list[tuple[int, int]] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    cards: dict[int, int] = field(default_factory=dict)
    running: dict[int, int] = field(default_factory=dict)
    owed: tuple[int, int] | None = None  # (row of the head, since)
    changed: bool = False

    def head(self) -> int | None:
        while self.waiting and self.waiting[0][1] in self.gone:
            self.gone.remove(heapq.heappop(self.waiting)[1])
        return self.waiting[0][1] if self.waiting else None

    def entitled(self) -> int | None:
        """The row of the head when it would fit into the private cluster."""
        head = self.head()
        if head is None:
            return None
        gangs = [*self.running.values(), self.cards[head]]
        whole = self.tenant.cards_per_node
        # Gangs above one node occupy whole nodes, so a count alone can already say no.
        needed = sum(size if size <= whole else -(-size // whole) * whole for size in gangs)
        if needed > self.tenant.gpus or not stand_together(gangs, self.tenant.nodes, whole):
            return None
        return head


class GuaranteeWatch:
    """An observer of a replay that counts violations."""

    def __init__(self, tenants: Sequence[Tenant]) -> None:
        self.violations = 0
        self._watches = {tenant.name: _Watch(tenant) for tenant in tenants}

    def submitted(self, at: int, record: Record) -> None:
        watch = self._watches[record.job.tenant]
        heapq.heappush(watch.waiting, (record.job.submit_s, record.job.row))
        watch.cards[record.job.row] = record.job.gpus
        watch.changed = True

    def started(self, at: int, record: Record) -> None:
        watch = self._watches[record.job.tenant]
        watch.gone.add(record.job.row)
        watch.running[record.job.row] = watch.cards.pop(record.job.row)
        watch.changed = True

    def evicted(self, at: int, record: Record) -> None:
        watch, row = self._watches[record.job.tenant], record.job.row
        watch.cards[row] = watch.running.pop(row)
        # Its old place in the line may still be there, not yet passed over.
        if row in watch.gone:
            watch.gone.remove(row)
        else:
            heapq.heappush(watch.waiting, (record.job.submit_s, row))
        watch.changed = True

    def finished(self, at: int, record: Record) -> None:
        watch = self._watches[record.job.tenant]
        del watch.running[record.job.row]
        watch.changed = True

    def settled(self, at: int) -> None:
        for watch in self._watches.values():
            if not watch.changed:
                continue
            watch.changed = False
            head = watch.entitled()
            if watch.owed is not None and watch.owed[0] != head:
                self.violations += at - watch.owed[1] > GRACE_S
                watch.owed = None
            if head is not None and watch.owed is None:
                watch.owed = (head, at)
