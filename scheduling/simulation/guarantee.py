"""Counting broken guarantees: how often a job waited for what its tenant's own nodes would have given it.

A violation is one stretch of more than the grace period in which a waiting job would fit, by itself, into the
tenant's virtual private cluster, that is the tenant's own nodes with only the tenant's running jobs on them,
packed largest first, and does not run. Every waiting job counts; on request only the first of its tenant's
line (by submission, then file row), as was counted before.
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
    """One tenant: who waits, who runs, and since when which waiting rows have had a right to run.

    `waiting` are rows by their cards, `line` the same in order, `fitting` the cards that fitted when the last
    instant was over, `fresh` the rows that came to wait since.
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
        """End the stretch of a row, if it has one."""
        self.violations += at - self.owed.pop(row, at) > GRACE_S

    def settle(self, at: int) -> None:
        """Begin and end stretches as things stand at the end of an instant."""
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
        """Begin and end the stretches of the first row of the line alone, as `settle` does for all rows."""
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
        """Return the waiting sizes of which one more job fits beside the running ones."""
        asked = [cards for cards, rows in self.waiting.items() if rows]
        unknown = [cards for cards in asked if cards not in self.packed]
        if unknown:
            # Gangs above one node occupy whole nodes, so a count alone can already say no.
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

    `heads_only`: of each tenant's line only the first job counts.
    """

    def __init__(self, tenants: Sequence[TraceTenant], *, heads_only: bool = False) -> None:
        self._heads_only = heads_only
        self._watches = {tenant.name: _Watch(tenant) for tenant in tenants}

    @property
    def violations(self) -> int:
        """Stretches above the grace that are over."""
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
