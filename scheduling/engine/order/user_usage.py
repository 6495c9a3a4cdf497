"""Recent usage of the users of a queue: users with less come first, however much each submits.

Usage decays with a half-life. An admission since the last measurement adds the part that would have accrued
over one sampling interval, so that a user who just started many jobs does not count as unused. Source: Kueue,
KEP-4136 "Admission fair sharing".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from scheduling.engine.model import Allocation, Instant, Job, JobState, Queue, ResourceName, UserUsage
from scheduling.engine.model.options import WHOLE, UserShares
from scheduling.engine.state.snapshot import Snapshot


class UserUsageTable:
    """The recent usage of the users of each queue at one instant; admissions of the cycle add to it."""

    def __init__(self, snapshot: Snapshot, shares: UserShares | None, now: Instant) -> None:
        self._snapshot = snapshot
        self._shares = shares
        self._now = now
        self._counted: dict[str, dict[str, dict[ResourceName, float]]] = {}
        # The cached load by queue and user, until the user is charged.
        self._loads: dict[tuple[str, str], float | None] = {}

    def uses_shares(self, queue: Queue) -> bool:
        """Return whether users' recent usage decides anything in this queue."""
        return self._shares is not None and queue.user_shares

    def compute_load(self, queue_id: str, user: str) -> float | None:
        """Return the recent usage of a user, weighted by resource and by the user; None if it is not tracked.

        The unit is resource units times the weights of the configuration. A user of weight zero comes last.
        """
        if self._shares is None:
            return None
        whose = queue_id, user
        if whose not in self._loads:
            self._loads[whose] = self._compute_load(self._shares, self._snapshot.queues[queue_id], user)
        return self._loads[whose]

    def _compute_load(self, shares: UserShares, queue: Queue, user: str) -> float | None:
        if not self.uses_shares(queue):
            return None
        amounts = self._usage_of(queue)[user]
        known = self._snapshot.usage.get((queue.id, user))
        return shares.compute_load(amounts, WHOLE if known is None else known.weight_milli)

    def charge_user(self, queue: Queue, job: Job, placed: Iterable[Allocation]) -> None:
        """Add an admitted job to its user's usage."""
        if self._shares is not None and self.uses_shares(queue):
            self._loads.pop((queue.id, job.user), None)
            _add(self._usage_of(queue)[job.user], placed, self._admission_part)

    def measure_queue(self, queue: Queue) -> None:
        """Compute the usage of a queue's users at this moment; later admissions add to it."""
        if self.uses_shares(queue):
            self._usage_of(queue)

    @property
    def _admission_part(self) -> float:
        shares = self._shares
        return 0.0 if shares is None else shares.compute_accrued_part(shares.sampling_s)

    def _usage_of(self, queue: Queue) -> dict[str, dict[ResourceName, float]]:
        known = self._counted.get(queue.id)
        if known is None:
            known = self._counted[queue.id] = self._measure_usage(queue)
        return known

    def _measure_usage(self, queue: Queue) -> dict[str, dict[ResourceName, float]]:
        amounts: dict[str, dict[ResourceName, float]] = defaultdict(lambda: defaultdict(float))
        usage = {user: entry for (name, user), entry in self._snapshot.usage.items() if name == queue.id}
        for user, entry in usage.items():
            remaining = 1.0 - self._accrued_since(entry)
            for used in entry.consumed:
                amounts[user][used.resource] += remaining * used.amount
        for job_id in self._snapshot.jobs_charged_to(queue.id):
            job = self._snapshot.jobs.get(job_id)
            if job is None or job.state not in (JobState.LIVE, JobState.LEAVING):
                continue
            counted = usage.get(job.user)
            held = [task for task in self._snapshot.allocations_of(job_id) if task.queue == queue.id]
            part = 0.0 if counted is None else self._accrued_since(counted)
            if job.admitted_at is not None and counted is not None and job.admitted_at >= counted.at:
                part += self._admission_part
            _add(amounts[job.user], held, part)
        return amounts

    def _accrued_since(self, usage: UserUsage) -> float:
        return 0.0 if self._shares is None else self._shares.compute_accrued_part(self._now - usage.at)


def _add(amounts: dict[ResourceName, float], tasks: Iterable[Allocation], part: float) -> None:
    if part:
        for task in tasks:
            for charge in task.charges:
                amounts[charge.resource] += part * charge.amount
