"""Trying to start one job: quota, flavor and place for its whole gang, or nothing.

Everything happens inside a statement, so a failed try leaves no trace. Roles that are hardest to
place go first; within a role tasks are placed one after another, each seeing what the former took.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduling.engine.model import (
    Allocation,
    Charge,
    Flavor,
    FlavorResource,
    Help,
    HelpCode,
    Job,
    Numbers,
    Queue,
    Reason,
    Role,
)
from scheduling.engine.placement.explain import fewer_cards, free_cards, refusals
from scheduling.engine.placement.feasibility import tolerates
from scheduling.engine.placement.placer import Placer
from scheduling.engine.placement.shape import TaskShape, resolve
from scheduling.engine.quota.charges import summed, task_charges, times
from scheduling.engine.quota.verdict import Gang, Shortage, beyond_ceiling, shortage
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement

# Least severe last: over several flavors the one that came closest is reported.
SEVERITY = {
    Reason.NEVER_FITS: 4,
    Reason.EXCEEDS_MAX_QUOTA: 3,
    Reason.WAITING_FOR_QUOTA: 2,
    Reason.WAITING_FOR_BORROWED: 1,
    Reason.NO_ROOM: 0,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a try failed."""

    reason: Reason
    numbers: Numbers
    help: tuple[Help, ...] = ()


@dataclass(frozen=True, slots=True)
class Sized:
    """A role with the number of tasks that this try starts."""

    role: Role
    count: int


class FullRooms:
    """Shapes for which there was no room: so many tasks, or more, need not be tried again.

    Holds as long as nothing is freed, which is why it belongs to one run of one action. Queues share
    it: what a node cannot take it cannot take from anyone.
    """

    def __init__(self) -> None:
        self._known: dict[TaskShape, tuple[int, Refusal]] = {}

    def note(self, task: TaskShape, count: int, refusal: Refusal) -> None:
        """So many tasks found no room."""
        known = self._known.get(task)
        if known is None or count < known[0]:
            self._known[task] = (count, refusal)

    def refusal(self, task: TaskShape, count: int) -> Refusal | None:
        """The earlier refusal that covers so many tasks, with this job's own numbers asked."""
        known = self._known.get(task)
        if known is None or count < known[0]:
            return None
        return replace(known[1], numbers={**known[1].numbers, "asked": count, "limit": count})


class GangTry:
    """One job against the present state of the snapshot."""

    def __init__(self, snapshot: Snapshot, placer: Placer, queue: Queue, job: Job, full: FullRooms) -> None:
        self._snapshot = snapshot
        self._placer = placer
        self._full = full
        self._queue = queue
        self._job = job

    def start(self, statement: Statement) -> tuple[Allocation, ...] | Refusal:
        """Place the job at full size, or, where roles are elastic, at the largest size that fits.

        On success the allocations are held in the statement; on refusal nothing is.
        """
        full = [Sized(role, role.replicas) for role in self._job.roles]
        placed = self._attempt(statement, full)
        spare = self._spare()
        if not isinstance(placed, Refusal) or spare == 0:
            return placed
        return self._largest(statement, spare) or placed

    def _largest(self, statement: Statement, spare: int) -> tuple[Allocation, ...] | None:
        """Binary search for the smallest reduction that fits; each role gives up its part of it."""
        low, high = 1, spare
        while low < high:
            middle = (low + high) // 2
            mark = statement.checkpoint()
            fits = not isinstance(self._attempt(statement, self._reduced(middle)), Refusal)
            statement.rollback(mark)
            low, high = (low, middle) if fits else (middle + 1, high)
        placed = self._attempt(statement, self._reduced(low))
        return None if isinstance(placed, Refusal) else placed

    def _spare(self) -> int:
        """How many tasks the job can do without."""
        roles = self._job.roles
        elastic = sum(role.replicas - role.least for role in roles)
        if self._job.min_available is None:
            return elastic
        return max(0, min(elastic, sum(role.replicas for role in roles) - self._job.min_available))

    def _reduced(self, reduction: int) -> list[Sized]:
        total = sum(role.replicas - role.least for role in self._job.roles)
        sized, left = [], reduction
        for role in self._job.roles:
            part = (role.replicas - role.least) * reduction // total
            sized.append(Sized(role, role.replicas - part))
            left -= part
        # Rounding down leaves a few tasks over: they are taken from the last elastic roles.
        for index in reversed(range(len(sized))):
            item = sized[index]
            part = min(left, item.count - item.role.least)
            sized[index] = replace(item, count=item.count - part)
            left -= part
        return sized

    def _attempt(self, statement: Statement, sized: list[Sized]) -> tuple[Allocation, ...] | Refusal:
        mark = statement.checkpoint()
        placed: list[Allocation] = []
        ordered = sorted(sized, key=self._hardest_first)
        for position, item in enumerate(ordered):
            later = ordered[position + 1 :]
            result = self._role(statement, item, placed, later) if item.count else ()
            if isinstance(result, Refusal):
                statement.rollback(mark)
                return result
            placed.extend(result)
        return tuple(sorted(placed, key=lambda allocation: (allocation.role, allocation.index)))

    def _hardest_first(self, item: Sized) -> tuple[object, ...]:
        gpu = item.role.request.gpu
        cards, whole = (0, False) if gpu is None else (gpu.cards, gpu.cores is None)
        return (-cards if whole else 0, -cards, -item.role.request.cpu, item.role.name)

    def _role(
        self, statement: Statement, item: Sized, placed: list[Allocation], later: list[Sized]
    ) -> tuple[Allocation, ...] | Refusal:
        own = summed(charge for allocation in placed for charge in allocation.charges)
        refusals_seen: list[Refusal] = []
        for flavor_id in self._queue.flavors:
            flavor = self._snapshot.flavors.get(flavor_id)
            if flavor is None or not tolerates(self._job, flavor):
                continue
            result = self._in_flavor(statement, item, flavor, own, later)
            if not isinstance(result, Refusal):
                return result
            refusals_seen.append(result)
        nowhere = Refusal(Reason.NEVER_FITS, {"role": item.role.name, "asked": item.count, "available": 0})
        return min(refusals_seen, key=lambda refusal: SEVERITY[refusal.reason], default=nowhere)

    def _in_flavor(
        self,
        statement: Statement,
        item: Sized,
        flavor: Flavor,
        own: dict[FlavorResource, int],
        later: list[Sized],
    ) -> tuple[Allocation, ...] | Refusal:
        task = resolve(item.role.request, self._job.rules, flavor)
        missing = self._missing(times(task_charges(task), item.count), flavor, own, later)
        if missing is not None:
            return _refused(missing)
        full = self._full.refusal(task, item.count)
        if full is not None:
            return replace(full, numbers={**full.numbers, "role": item.role.name})
        mark = statement.checkpoint()
        placed: list[Allocation] = []
        for index in range(item.count):
            allocation = self._seat(task, flavor, item.role, index)
            if allocation is None:
                refusal = self._no_room(task, flavor, item, index)
                statement.rollback(mark)
                if not own:
                    # With other roles of the job placed first, the room was also short by theirs.
                    self._full.note(task, item.count, refusal)
                return refusal
            statement.allocate(allocation)
            placed.append(allocation)
        return tuple(placed)

    def _missing(
        self,
        charges: tuple[Charge, ...],
        flavor: Flavor,
        own: dict[FlavorResource, int],
        later: list[Sized],
    ) -> Shortage | None:
        """What quota lacks for these charges, told for the whole gang as far as it would go here."""
        tree, queue, job = self._snapshot.quota, self._queue, self._job
        here = [item for item in later if flavor.id in self._flavors_for(item.role)]
        bound = [item for item in here if len(self._flavors_for(item.role)) == 1]
        gang = Gang(own, self._asked(here, flavor), self._asked(bound, flavor))
        return beyond_ceiling(tree, queue, job, charges, own) or shortage(tree, queue, job, charges, gang)

    def _asked(self, items: list[Sized], flavor: Flavor) -> dict[FlavorResource, int]:
        return summed(
            charge
            for item in items
            for charge in times(task_charges(resolve(item.role.request, self._job.rules, flavor)), item.count)
        )

    def _flavors_for(self, role: Role) -> tuple[str, ...]:
        """Flavors of the queue that the job's tolerations and the role's card models admit."""
        models = role.request.gpu.models if role.request.gpu else ()
        known = (self._snapshot.flavors.get(flavor_id) for flavor_id in self._queue.flavors)
        return tuple(
            flavor.id
            for flavor in known
            if flavor is not None
            and tolerates(self._job, flavor)
            and (not models or flavor.card_model in ("", *models))
        )

    def _seat(self, task: TaskShape, flavor: Flavor, role: Role, index: int) -> Allocation | None:
        seat = self._placer.choose(task, flavor)
        if seat is None:
            return None
        return Allocation(
            job=self._job.id,
            queue=self._queue.id,
            role=role.name,
            index=index,
            flavor=flavor.id,
            node=seat.node,
            cpu=task.cpu,
            memory=task.memory,
            slices=seat.slices,
            zones=seat.zones,
            extended=task.extended,
            charges=task_charges(task),
        )

    def _no_room(self, task: TaskShape, flavor: Flavor, item: Sized, placed: int) -> Refusal:
        board = self._placer.board(task, flavor)
        question = board.question
        numbers: dict[str, int | str] = {
            "flavor": flavor.id,
            "role": item.role.name,
            "asked": item.count,
            "available": placed,
            "limit": item.count,
            **free_cards(question),
            **refusals(board),
        }
        ways = fewer_cards(question)
        if placed:
            ways = (Help(HelpCode.ASK_FEWER_TASKS, {"role": item.role.name, "tasks": placed}), *ways)
        return Refusal(Reason.NO_ROOM, numbers, ways)


def _refused(missing: Shortage) -> Refusal:
    return Refusal(missing.reason, missing.numbers, missing.help)
