"""Counts violations of guarantees: times in which a job waited although its tenant's own nodes would have
sufficed.

A violation is a period of more than the grace period in which a pending job would fit, alone, into the
tenant's virtual private cluster: the tenant's own nodes with only the tenant's running jobs, packed largest
first. Every pending job counts, or with an option only the first one of its tenant (by submission, then row
of the file).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduling.simulation.clock import Record
from scheduling.simulation.gang_packing import can_pack_gangs
from scheduling.simulation.philly import TraceTenant

GRACE_S = 60


@dataclass(slots=True)
class _Watch:
    """The pending and running jobs of one tenant, and since when each pending row could run.

    `waiting` has pending rows by their cards, `line` has them in order. `fitting` are the sizes that fitted
    at the end of the last instant, `fresh` the rows that became pending since.
    """

    tenant: TraceTenant
    line: list[tuple[int, int]] = field(default_factory=list)
    waiting: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    running: dict[int, int] = field(default_factory=dict)
    fitting: set[int] = field(default_factory=set)
    packed: dict[int, bool] = field(default_factory=dict)
    fresh: list[tuple[int, int]] = field(default_factory=list)
    owed: dict[int, int] = field(default_factory=dict)
    violations: int = 0
    changed: bool = False

    def put(self, record: Record) -> None:
        job = record.job
        insort(self.line, (job.submit_s, job.row))
        self.waiting[job.gpus].add(job.row)
        self.fresh.append((job.gpus, job.row))
        self.changed = True

    def take(self, at: int, record: Record) -> None:
        job = record.job
        del self.line[bisect_left(self.line, (job.submit_s, job.row))]
        self.waiting[job.gpus].remove(job.row)
        self.close(at, job.row)
        self.changed = True

    def close(self, at: int, row: int) -> None:
        """End the period of a row, if it has one, and count it if it is a violation."""
        self.violations += at - self.owed.pop(row, at) > GRACE_S

    def settle(self, at: int) -> None:
        """Begin and end periods of rows at the end of an instant."""
        before, self.fitting = self.fitting, self._fitting()
        for cards in before - self.fitting:
            for row in self.waiting[cards]:
                self.close(at, row)
        for cards in self.fitting - before:
            self.owed |= dict.fromkeys(self.waiting[cards], at)
        for cards, row in self.fresh:
            if cards in self.fitting and row in self.waiting[cards]:
                self.owed.setdefault(row, at)
        self.fresh.clear()

    def settle_head(self, at: int) -> None:
        """Begin and end the period of the first pending row only, as `settle` does for all rows."""
        row = self.line[0][1] if self.line else None
        cards = next((cards for cards, rows in self.waiting.items() if row in rows), None)
        entitled = cards is not None and cards in self._fitting()
        for other in [other for other in self.owed if other != row or not entitled]:
            self.close(at, other)
        if row is not None and entitled:
            self.owed.setdefault(row, at)

    def run(self, row: int, cards: int) -> None:
        self.running[row] = cards
        self.packed.clear()
        self.changed = True

    def stop(self, row: int) -> None:
        del self.running[row]
        self.packed.clear()
        self.changed = True

    def _fitting(self) -> set[int]:
        """Return the sizes of pending jobs of which one more job fits beside the running jobs."""
        asked = [cards for cards, rows in self.waiting.items() if rows]
        unknown = [cards for cards in asked if cards not in self.packed]
        if unknown:
            # Gangs above one node occupy whole nodes, so a count of cards can already exclude a size.
            gangs = sorted(self.running.values(), reverse=True)
            free = self.tenant.gpus - sum(map(self._occupied, gangs))
            nodes, whole = self.tenant.nodes, self.tenant.cards_per_node
            for cards in unknown:
                enough = self._occupied(cards) <= free
                self.packed[cards] = enough and can_pack_gangs((*gangs, cards), nodes, whole)
        return {cards for cards in asked if self.packed[cards]}

    def _occupied(self, cards: int) -> int:
        whole = self.tenant.cards_per_node
        return cards if cards <= whole else -(-cards // whole) * whole


class GuaranteeWatch:
    """An observer of a replay that counts violations.

    `heads_only`: only the first pending job of each tenant counts.
    """

    def __init__(self, tenants: Sequence[TraceTenant], *, heads_only: bool = False) -> None:
        self._heads_only = heads_only
        self._watches = {tenant.name: _Watch(tenant) for tenant in tenants}

    @property
    def violations(self) -> int:
        """The number of ended periods longer than the grace period."""
        return sum(watch.violations for watch in self._watches.values())

    def on_submitted(self, at: int, record: Record) -> None:
        self._watches[record.job.tenant].put(record)

    def on_started(self, at: int, record: Record) -> None:
        watch = self._watches[record.job.tenant]
        watch.take(at, record)
        watch.run(record.job.row, record.job.gpus)

    def on_evicted(self, at: int, record: Record) -> None:
        watch = self._watches[record.job.tenant]
        watch.stop(record.job.row)
        watch.put(record)

    def on_finished(self, at: int, record: Record) -> None:
        self._watches[record.job.tenant].stop(record.job.row)

    def on_settled(self, at: int) -> None:
        for watch in self._watches.values():
            if watch.changed:
                watch.changed = False
                (watch.settle_head if self._heads_only else watch.settle)(at)
