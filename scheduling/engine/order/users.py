"""Users of one queue, by what they used lately: who used less goes first, however much each submits.

What a user used is decayed with a half-life. What was admitted since it was last counted adds the part
that would have accrued over one sampling interval, so that a user who just started much is not taken for
one who used nothing. Source: Kueue's usage-based admission fair sharing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from scheduling.engine.model import Allocation, Instant, Job, JobState, Queue, ResourceName, UserUsage
from scheduling.engine.model.options import UserShares
from scheduling.engine.state.snapshot import Snapshot

WHOLE = 1000
"""A weight of one, in thousandths."""

UNCOUNTED = float("inf")


def accrued(elapsed_s: float, half_life_s: float) -> float:
    """The part of a present use that counts after so long; nothing where there is no half-life."""
    return 0.0 if half_life_s == 0 else 1.0 - 0.5 ** (elapsed_s / half_life_s)


class Users:
    """What the users of each queue used lately, as of one instant. Grows with what the cycle admits."""

    def __init__(self, snapshot: Snapshot, shares: UserShares | None, now: Instant) -> None:
        self._snapshot = snapshot
        self._shares = shares
        self._now = now
        self._weights = dict(shares.resource_weights) if shares is not None else {}
        self._counted: dict[str, dict[str, dict[ResourceName, float]]] = {}
        # By queue and user, until that user is charged.
        self._loads: dict[tuple[str, str], float | None] = {}

    def counts(self, queue: Queue) -> bool:
        """Whether users' past decides anything in this queue."""
        return self._shares is not None and queue.user_shares

    def load(self, queue_id: str, user: str) -> float | None:
        """What a user used lately, weighed by resource and by the user's weight; None if nobody counts.

        In resource units times the weights of the configuration. A user of weight zero comes last.
        """
        if self._shares is None:
            return None
        whose = queue_id, user
        if whose not in self._loads:
            self._loads[whose] = self._load(self._snapshot.queues[queue_id], user)
        return self._loads[whose]

    def _load(self, queue: Queue, user: str) -> float | None:
        if not self.counts(queue):
            return None
        amounts = self._of(queue)[user]
        known = self._snapshot.usage.get((queue.id, user))
        weight = WHOLE if known is None else known.weight_milli
        if weight <= 0:
            return UNCOUNTED
        total = sum(self._weights.get(name, WHOLE) * amounts[name] for name in sorted(amounts))
        return total / weight

    def charge(self, queue: Queue, job: Job, placed: Iterable[Allocation]) -> None:
        """A job was admitted: its user waits behind users who used less."""
        if self._shares is not None and self.counts(queue):
            self._loads.pop((queue.id, job.user), None)
            _add(self._of(queue)[job.user], placed, self._entry)

    def count(self, queue: Queue) -> None:
        """Count what is used at this moment, where it decides anything: what is decided later adds to it."""
        if self.counts(queue):
            self._of(queue)

    @property
    def _entry(self) -> float:
        shares = self._shares
        return 0.0 if shares is None else accrued(shares.sampling_s, shares.half_life_s)

    def _of(self, queue: Queue) -> dict[str, dict[ResourceName, float]]:
        known = self._counted.get(queue.id)
        if known is None:
            known = self._counted[queue.id] = self._count(queue)
        return known

    def _count(self, queue: Queue) -> dict[str, dict[ResourceName, float]]:
        amounts: dict[str, dict[ResourceName, float]] = defaultdict(lambda: defaultdict(float))
        usage = {user: entry for (name, user), entry in self._snapshot.usage.items() if name == queue.id}
        for user, entry in usage.items():
            kept = 1.0 - self._since(entry)
            for used in entry.consumed:
                amounts[user][used.resource] += kept * used.amount
        for job_id in self._snapshot.holders(queue.id):
            job = self._snapshot.jobs.get(job_id)
            if job is None or job.state not in (JobState.LIVE, JobState.LEAVING):
                continue
            counted = usage.get(job.user)
            held = [task for task in self._snapshot.held(job_id) if task.queue == queue.id]
            part = 0.0 if counted is None else self._since(counted)
            if job.admitted_at is not None and counted is not None and job.admitted_at >= counted.at:
                part += self._entry
            _add(amounts[job.user], held, part)
        return amounts

    def _since(self, usage: UserUsage) -> float:
        half_life = 0.0 if self._shares is None else self._shares.half_life_s
        return accrued(max(0.0, self._now - usage.at), half_life)


def _add(amounts: dict[ResourceName, float], tasks: Iterable[Allocation], part: float) -> None:
    if part:
        for task in tasks:
            for charge in task.charges:
                amounts[charge.resource] += part * charge.amount
