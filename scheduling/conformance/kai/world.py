"""The cluster of a case between two actions: the status and the allocation of each task.

It carries out the decisions of cycles. At the end of a round terminating tasks have ended, and started tasks
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from scheduling.conformance.kai.numa import NumaPolicy
from scheduling.engine.model import (
    Allocation,
    Claim,
    Decision,
    DecisionKind,
    Flavor,
    Instant,
    Job,
    Node,
    Queue,
    QuotaNode,
)

CLAIM_S = 3600.0
"""The lifetime of a claim in seconds, which is longer than any case."""


class Status(StrEnum):
    """KAI's names of the status of a task."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    BINDING = "Binding"
    BOUND = "Bound"
    PIPELINED = "Pipelined"
    RUNNING = "Running"
    RELEASING = "Releasing"
    STUCK = "StuckInReleasing"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"


ASSIGNED = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.STUCK)


@dataclass(slots=True, kw_only=True)
class KaiTask:
    """One task. `hold` is its allocation; for a pipelined task it is the one that it will get.

    `former` is the previous allocation of a task that is moved, `noted` the node of a task without an
    allocation. `index` is its number in its role. `gpus`, `cpu` and `memory` are its request, `demand` is its
    charge.
    """

    uid: str
    job: str
    role: str
    index: int
    status: Status
    gpus: float
    cpu: int
    memory: int
    demand: Mapping[str, int] = field(default_factory=dict)
    hold: Allocation | None = None
    former: Allocation | None = None
    noted: str = ""

    @property
    def node(self) -> str:
        """The node on which the task is or will be; without an allocation, the noted node."""
        return self.noted if self.hold is None else self.hold.node

    def is_placed(self) -> bool:
        """Return whether the task has a placement and is not terminating."""
        return self.status in ASSIGNED


@dataclass(slots=True, kw_only=True)
class KaiGang:
    """One job: its constant description, its tasks, and whether its owner is deleting it.

    `broken_since` is when it fell below its minimum, `grace_s` how long it may stay there; None means the
    scheduler's value.
    """

    job: Job
    tasks: list[KaiTask]
    deleted: bool = False
    claim: Claim | None = None
    grace_s: int | None = None
    broken_since: Instant | None = None


@dataclass(slots=True, kw_only=True)
class World:
    """The state of one case. Nodes have no usage; tasks have the allocations.

    `facts` are the queues of the case, `capacity` is that of the cluster; without `limited` there are no
    quotas.
    """

    nodes: tuple[Node, ...]
    flavor: Flavor
    queues: tuple[Queue, ...]
    quota_nodes: tuple[QuotaNode, ...]
    gangs: dict[str, KaiGang]
    now: Instant
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    limited: bool = True
    grace_s: int = 0
    devices: str = "best-fit"
    numa_policies: Mapping[str, NumaPolicy] = field(default_factory=dict)
    bindings: int = 0
    evictions: int = 0
    promises: int = 0
    _by_id: dict[str, KaiTask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_id = {f"{task.job}/{task.role}/{task.index}": task for task in self.all_tasks()}

    def all_tasks(self) -> Iterator[KaiTask]:
        """Yield all tasks, job by job."""
        for gang in self.gangs.values():
            yield from gang.tasks

    def all_allocations(self) -> Iterator[tuple[KaiTask, Allocation]]:
        """Yield the tasks that hold allocations, with these; pipelined tasks hold nothing yet."""
        for task in self.all_tasks():
            if task.former is not None:
                yield task, task.former
            elif task.hold is not None and task.status is not Status.PIPELINED:
                yield task, task.hold

    def current_state(self) -> tuple[object, ...]:
        """Return the status and allocations of all tasks, and the claims."""
        doing = tuple((task.uid, task.status, task.hold, task.former) for task in self.all_tasks())
        return (doing, tuple(gang.claim for gang in self.gangs.values()))

    def waits_for_time(self) -> bool:
        """Return whether the evaluation of a job can change because time passes."""
        return any(
            gang.broken_since is not None or gang.job.preempts_after is not None
            for gang in self.gangs.values()
        )

    # Decisions

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        """Carry out the decisions of a cycle in their order."""
        for decision in decisions:
            match decision.kind:
                case DecisionKind.ADMIT | DecisionKind.GROW:
                    self._start(decision.allocations)
                    self.gangs[decision.job].claim = None
                case DecisionKind.PARK:
                    self._promise(decision)
                case DecisionKind.EVICT | DecisionKind.SHRINK:
                    self._dismiss(decision)
                case DecisionKind.MIGRATE:
                    self._move(decision)
                case DecisionKind.RESIZE:
                    raise ValueError(f"nobody resizes {decision.job} here")

    def _start(self, allocations: Iterable[Allocation]) -> None:
        for allocation in allocations:
            task = self._by_id[allocation.id]
            task.status, task.hold = Status.BINDING, allocation
            self.bindings += 1

    def _promise(self, decision: Decision) -> None:
        gang = self.gangs[decision.job]
        for task in gang.tasks:
            if task.status is Status.PIPELINED and task.former is None:
                task.status, task.hold = Status.PENDING, None
        for allocation in decision.allocations:
            task = self._by_id[allocation.id]
            task.status, task.hold = Status.PIPELINED, allocation
            self.promises += 1
        gang.claim = None
        if decision.allocations:
            gang.claim = Claim(
                job=decision.job,
                allocations=decision.allocations,
                leaving=decision.released,
                until=Instant(self.now + CLAIM_S),
            )

    def _dismiss(self, decision: Decision) -> None:
        gang = self.gangs[decision.job]
        marked = [self._by_id[key] for key in decision.released] or [t for t in gang.tasks if t.is_placed()]
        for task in marked:
            if task.status is not Status.RELEASING and task.hold is not None:
                task.status, task.hold = Status.RELEASING, replace(task.hold, leaving=True)
                self.evictions += 1

    def _move(self, decision: Decision) -> None:
        for allocation in decision.allocations:
            task = self._by_id[allocation.id]
            if task.hold is None:
                raise ValueError(f"{allocation.id} is moved and is nowhere")
            task.former = replace(task.hold, leaving=True)
            task.status, task.hold = Status.PIPELINED, allocation
            self.evictions += 1
            self.promises += 1

    # Time

    def end_round(self, seconds: float) -> None:
        """End a round: terminating tasks become pending again, started tasks run."""
        self.now = Instant(self.now + seconds)
        self.bindings = self.evictions = self.promises = 0
        for gang in self.gangs.values():
            for task in gang.tasks:
                if task.status in (Status.ALLOCATED, Status.BINDING, Status.BOUND):
                    task.status = Status.RUNNING
                elif task.status is Status.PIPELINED or (
                    task.status is Status.RELEASING and not gang.deleted
                ):
                    task.status, task.hold, task.former, task.noted = Status.PENDING, None, None, ""
