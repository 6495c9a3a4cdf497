"""Writing down what was decided: decisions, outcomes and the record of each turn."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.actions.admission.entry import Entry, admitted, awaits, waits
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.model import (
    Allocation,
    Charge,
    Decision,
    DecisionKind,
    FlavorResource,
    Instant,
    Job,
    Outcome,
    Queue,
    Verdict,
)
from scheduling.engine.preemption.targets import Target
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.session import Session

Borrowed = dict[FlavorResource, int]
# The counters of turns by what became of them.
_TURNS = {verdict: f"turns_{verdict.value.replace('-', '_')}" for verdict in Verdict}


class Ledger:
    """The decisions of one action. The snapshot follows each of them at once."""

    def __init__(self, session: Session, outlook: Outlook) -> None:
        self._session = session
        self._snapshot = session.snapshot
        self._outlook = outlook

    def admit(self, entry: Entry, placed: tuple[Allocation, ...], before: Borrowed) -> Outcome:
        """The job starts; its tasks hold their places already. `before` is what its queue had borrowed."""
        session = self._session
        session.counters["admitted"] += 1
        session.counters["placed_tasks"] += len(placed)
        session.decisions.append(
            Decision(
                kind=DecisionKind.ADMIT,
                job=entry.job.id,
                allocations=placed,
                borrowed=self._newly_borrowed(entry.queue, placed, before),
                released=entry.replaced,
                numbers=_sizes(entry, placed),
            )
        )
        session.users.charge(entry.queue, entry.job, placed)
        session.allowances.record_use(entry.job, placed)
        self._trace(entry, Verdict.ADMITTED)
        return admitted(entry.job, len(placed))

    def promise(self, entry: Entry, awaited: tuple[str, ...], verdict: Verdict) -> Outcome:
        """The job gets its places once `awaited` are gone; victims are told to leave."""
        session = self._session
        for target in entry.targets:
            self.evict(entry.job, target)
        until = Instant(session.now + session.config.preemption.claim_s)
        for allocation in entry.placed:
            self._snapshot.take(allocation)
        session.allowances.record_use(entry.job, entry.placed)
        session.decisions.append(
            Decision(
                kind=DecisionKind.PARK,
                job=entry.job.id,
                allocations=entry.placed,
                released=awaited,
                numbers={"until": int(until)},
            )
        )
        session.counters["promised"] += 1
        self._trace(entry, verdict)
        jobs = {self._snapshot.allocations[key].job for key in awaited if key in self._snapshot.allocations}
        return awaits(entry.job, len(awaited), len(jobs), entry.found if entry.targets else None)

    def refuse(self, entry: Entry, refusal: Refusal, verdict: Verdict) -> Outcome:
        """The job waits."""
        self._trace(entry, verdict)
        return waits(entry.job, refusal)

    def withdraw(self, job: Job) -> None:
        """A promise that somebody before it in the line took over."""
        self._session.allowances.forget_claim(job.id)
        self._session.decisions.append(Decision(kind=DecisionKind.PARK, job=job.id))

    def borrowed(self, queue: Queue) -> Borrowed:
        """What a queue uses above its own nominal."""
        tree = self._snapshot.quota
        above = {}
        for key, used in tree.usages(queue.quota_node).items():
            nominal = tree.subtree_quota(queue.quota_node, key)
            if nominal is not None and used > nominal:
                above[key] = used - nominal
        return above

    def tasks_of(self, targets: Iterable[Target]) -> tuple[str, ...]:
        """The allocations that victims hold and give up."""
        return tuple(
            key
            for target in targets
            for key in (target.tasks or tuple(a.id for a in self._snapshot.held(target.job)))
        )

    def evict(self, beneficiary: Job, target: Target) -> None:
        """A victim is told to leave for a job."""
        released = self.tasks_of((target,))
        self._outlook.add(released)
        if target.already_leaving:
            return
        self._session.counters["evicted"] += 1
        self._session.decisions.append(
            Decision(
                kind=DecisionKind.SHRINK if target.tasks else DecisionKind.EVICT,
                job=target.job,
                rule=target.rule,
                beneficiary=beneficiary.id,
                released=released,
            )
        )

    def _newly_borrowed(
        self, queue: Queue, placed: tuple[Allocation, ...], before: Borrowed
    ) -> tuple[Charge, ...]:
        after = self.borrowed(queue)
        keys = {charge.key for allocation in placed for charge in allocation.charges}
        return tuple(
            sorted(
                Charge(key.flavor, key.resource, after[key] - before.get(key, 0))
                for key in keys
                if after.get(key, 0) > before.get(key, 0)
            )
        )

    def _trace(self, entry: Entry, verdict: Verdict) -> None:
        self._session.counters[_TURNS[verdict]] += 1
        if self._session.config.trace:
            self._session.considered.append(entry.considered(verdict))


def _sizes(entry: Entry, placed: tuple[Allocation, ...]) -> dict[str, int | str]:
    """Tasks per role, as `tasks.<role>`: where one hold stands for a whole role it cannot be counted."""
    sizes: dict[str, int | str] = {f"tasks.{role.role}": role.count for role in entry.assignment.roles}
    counted: dict[str, int] = {}
    for allocation in placed:
        if allocation.node:
            counted[f"tasks.{allocation.role}"] = counted.get(f"tasks.{allocation.role}", 0) + 1
    return sizes | counted
