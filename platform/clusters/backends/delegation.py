"""The contract with an admission engine in the cluster, such as Kueue, which decides which jobs are admitted.

The platform and the engine exchange three things. A *projection*: the quota tree as it has to exist in the
cluster. A *workload*: one job that waits there, with nothing running, until it is admitted as a whole. A
*verdict*: the engine's decision on a workload. All are states, not steps: the projection is compared and
repaired, a workload is looked up by name, and every verdict is read again each time.

Nothing here depends on Kueue. Volcano has equivalents: Queue for a queue and its cohorts, PodGroup for a
workload, and the PodGroup's phase and conditions for a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from clusters.backends.base import PodOutcome


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """The limits of one node of the tree for one resource of one flavor, in its unit; None is unlimited."""

    pool: str
    resource: str
    nominal: int | None
    borrowing: int | None = None
    lending: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedFlavor:
    """Nodes that count as one flavor. `card_memory_mib` is the memory that a whole card of it is charged."""

    id: str
    name: str
    node_labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]] = ()
    tolerations: Sequence[Mapping[str, Any]] = ()
    gpu_mode: str = "whole"
    card_memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """A folder or a workspace. `weight_milli`: its fair share in thousandths."""

    id: str
    name: str
    parent: str | None
    weight_milli: int = 1000
    limits: tuple[QuotaLimit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """A queue of one namespace in the platform's terms; `pools` are tried in their order.

    `workspace`: the id of the workspace to which the namespace has to belong.

    The jobs that its jobs may preempt: `within` the queue; `reclaim` in other queues above their nominal;
    `while_borrowing` in other queues in order to borrow, from jobs not above `max_priority`.
    """

    id: str
    name: str
    parent: str
    namespace: str
    workspace: str
    pools: tuple[str, ...]
    limits: tuple[QuotaLimit, ...] = ()
    weight_milli: int = 1000
    strategy: str = "best-effort-fifo"
    stop_policy: str = "none"
    within: str = "never"
    reclaim: str = "never"
    while_borrowing: str = "never"
    max_priority: int | None = None
    when_can_borrow: str = "may-stop-search"
    when_can_preempt: str = "try-next-flavor"
    preference: str = "borrowing-over-preemption"


@dataclass(frozen=True, slots=True)
class ProjectedPriority:
    """A named priority."""

    id: str
    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The whole tree as it has to exist in one cluster: nodes name their parents, in no particular order."""

    pools: tuple[ProjectedFlavor, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    queues: tuple[QueueRules, ...] = ()
    priorities: tuple[ProjectedPriority, ...] = ()


@dataclass(slots=True)
class Projected:
    """The result of one comparison, by the names of the objects; `refused` has the cluster's messages."""

    created: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Return whether any object differed."""
        return bool(self.created or self.repaired or self.removed or self.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedPodSet:
    """Equal tasks of a workload, a pod set of Kueue. Amounts per task: CPU in millicores, memory in MiB.

    `cores` (percent points) and `gpu_memory_mib` are the sums over the task's cards, and zero for whole
    cards. `least` below `count` makes it elastic. It may be admitted only into one of `pools`.
    """

    name: str
    count: int
    least: int
    cpu_millicores: int
    memory_mib: int
    cards: int = 0
    cores: int = 0
    gpu_memory_mib: int = 0
    pools: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: Sequence[Sequence[Mapping[str, Any]]] = ()  # terms of expressions; one term must hold
    tolerations: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedWorkload:
    """One job for the engine of the cluster, admitted as a whole or not at all.

    `attempt` is the run that an admission would begin. Admissions of earlier attempts are over.
    """

    namespace: str
    workspace: str
    name: str
    job: str
    queue: str
    priority_class: str
    priority: int
    attempt: int
    groups: tuple[DelegatedPodSet, ...]


class VerdictKind(StrEnum):
    """`terminating`: marked for eviction, with its quota until that is released; `ended`: over for good."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    TERMINATING = "terminating"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadVerdict:
    """The state of one workload as its engine reports it.

    `code` is the reason why it waits, or the rule by which it is evicted, in the platform's terms; `detail`
    is the engine's own message. `pools` and `counts` give by group where it was admitted and how many tasks.
    `job` is empty for a workload of another owner. `shape` shows whether it still is the wanted one,
    `reserved` whether it holds quota; `content` belongs to the delegate that made the verdict.
    """

    namespace: str
    name: str
    job: str
    kind: VerdictKind
    code: str = ""
    numbers: Mapping[str, int | str] = field(default_factory=dict)
    detail: str = ""
    pools: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    shape: str = ""
    attempt: int = 0
    active: bool = True
    reserved: bool = False
    content: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WorkloadVerdicts:
    """The verdicts on workloads, and the cursor up to which they are complete."""

    seen: Sequence[WorkloadVerdict]
    cursor: str


@dataclass(frozen=True, slots=True)
class WorkloadChanges(WorkloadVerdicts):
    """The changes since a cursor; `removed` are the jobs whose workload no longer exists."""

    removed: frozenset[str] = frozenset()


@runtime_checkable
class Delegate(Protocol):
    """The engine of one cluster. Every call may raise `BackendUnavailable`; then its effect is unknown.

    Callers repeat a request until they see its effect, so an unknown outcome need not be stored.
    """

    def apply_projection(self, wanted: Projection) -> Projected:
        """Create, repair and remove objects of the projection; only objects with our label are touched."""

    def shape_of(self, workload: DelegatedWorkload) -> str:
        """Return the shape that a verdict on exactly this workload would have."""

    def create_workload(self, workload: DelegatedWorkload) -> PodOutcome:
        """Create a workload, which waits for its admission. An existing one of that name counts as done."""

    def set_paused(self, verdict: WorkloadVerdict, *, paused: bool) -> PodOutcome:
        """Exclude the workload from admission, or include it again; it keeps its place in the queue."""

    def give_back(self, verdict: WorkloadVerdict, *, attempt: int) -> PodOutcome:
        """Release its quota, of which nothing is used any more; it waits again, for run `attempt`."""

    def delete_workload(self, verdict: WorkloadVerdict) -> PodOutcome:
        """Delete the workload, with any quota that it holds."""

    def list_verdicts(self) -> WorkloadVerdicts:
        """Return verdicts on every workload in our queues; those of other owners name no job.

        Raises: BackendUnavailable, also if the engine is not running.
        """

    def list_changes(self, cursor: str) -> WorkloadChanges | None:
        """Return verdicts on our workloads that changed since `cursor`; None if the cluster no longer knows
        that version.
        """
