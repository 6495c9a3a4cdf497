"""Jobs, their roles and requests, and the allocations of live tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from foundation.core.flavor_resource import ResourceName
from scheduling.engine.model.inventory import Extended, Toleration
from scheduling.engine.model.kinds import GpuMode, Instant, JobState, QosClass, TopologyMode
from scheduling.engine.model.profiles import parse_profile
from scheduling.engine.model.quota import Charge


class AffinityOperator(StrEnum):
    """The operator that compares a node label with the values of an expression."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Expression:
    """One condition on a node label. `Gt` and `Lt` take one whole number."""

    key: str
    operator: AffinityOperator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """A preference of `weight` for nodes on which all expressions hold."""

    weight: int
    expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Other tasks, found by their labels, in the domain of nodes that share the value of `topology_key`.

    The term selects a task if all expressions hold for its labels and it belongs to one of `namespaces`;
    without namespaces that of the task with the term. Without expressions it selects every task there.
    """

    topology_key: str
    expressions: tuple[Expression, ...] = ()
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredPods:
    """A preference of `weight` for domains with tasks that the term selects."""

    weight: int
    term: PodTerm


class ClaimState(StrEnum):
    """The state of a persistent volume claim. Tasks are placed with `bound` ones alone, among which are those
    whose volume is created once a node is selected.

    `static`: pending, because volumes of its class are created by hand. `class_unread` and `not_permitted`:
    pending, and the platform may not read its storage class, or select a node for it. `unread`: not known.
    """

    BOUND = "bound"
    PENDING = "pending"
    STATIC = "static"
    CLASS_UNREAD = "class_unread"
    NOT_PERMITTED = "not_permitted"
    LOST = "lost"
    MISSING = "missing"
    DELETING = "deleting"
    UNREAD = "unread"


NODE_NAME_FIELD: Final = "metadata.name"
"""The field by which the terms of a volume name nodes, beside their labels."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume that tasks mount by a persistent volume claim, `name`, as one cluster has it.

    `terms` are the required node affinity of its volume, or the nodes for which it can be created: at least
    one term must hold for a node that mounts it. No terms means every node of the cluster. `temporary`: the
    volume doesn't exist yet, and the terms hold only until it is created.
    """

    name: str
    cluster: str = ""
    state: ClaimState = ClaimState.BOUND
    terms: tuple[tuple[Expression, ...], ...] = ()
    temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRules:
    """The nodes on which a job's tasks may run, and those that they prefer.

    `node_affinity` has the required terms: at least one term must hold, and a term holds when all its
    expressions do. No terms means no restriction. All of `pod_affinity` must be met and none of
    `pod_anti_affinity`, neither by the tasks in the domain nor by this task for theirs. A task without a
    `namespace` takes part in neither. `group` names tasks that prefer nodes near each other. All
    `volume_claims` of the node's cluster must be bound, and the node must be able to mount their volumes; a
    claim restricts no node of a cluster without an entry.
    """

    node_name: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    pod_affinity: tuple[PodTerm, ...] = ()
    pod_anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pods: tuple[PreferredPods, ...] = ()
    avoided_pods: tuple[PreferredPods, ...] = ()
    group: str = ""
    volume_claims: tuple[MountedVolume, ...] = ()


ANYWHERE = PlacementRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """Cards of one task. `cores` and memory are per card and equal on all its cards.

    A whole card takes all cores and memory and names neither. A slice names its memory either in MiB
    or in percent of the flavor's card, and its `cores` (core units, at least 1); without cores it gets
    the share of the card's cores that its memory is of the card's memory. A MIG instance is named by
    its `profile`, and `cards` counts instances. An empty `models` accepts any card.

    Raises:
        ValueError: when the numbers contradict the mode.
    """

    cards: int = 1
    mode: GpuMode = GpuMode.WHOLE
    cores: int | None = None
    memory: int | None = None
    memory_percent: int | None = None
    models: tuple[str, ...] = ()
    profile: str = ""

    def __post_init__(self) -> None:
        if self.cards < 1:
            raise ValueError(f"a GPU request needs at least one card, not {self.cards}")
        if (self.mode is GpuMode.MIG) != bool(self.profile):
            raise ValueError("a profile is named for MIG instances, and for nothing else")
        if self.profile:
            parse_profile(self.profile)
        if self.mode is not GpuMode.SLICE:
            if (self.cores, self.memory, self.memory_percent) != (None, None, None):
                raise ValueError("cores and memory are named for slices only")
            return
        if self.cores is not None and self.cores < 1:
            raise ValueError("a slice needs at least 1 core unit: zero would mean no limit")
        if (self.memory is None) == (self.memory_percent is None):
            raise ValueError("a slice names its memory once: in MiB or in percent")
        if self.cores is None and not (self.memory or self.memory_percent):
            raise ValueError("a slice without cores needs some memory to derive them from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of one task: `cpu` in millicores, `memory` in MiB, cards, and named resources.

    `charged` are amounts that count against quota although no node has the resource, such as the number of
    tasks. An amount of zero there still requests a flavor. `qos` is the class that Kubernetes derives for it.
    """

    cpu: int = 0
    memory: int = 0
    gpu: GpuRequest | None = None
    extended: tuple[Extended, ...] = ()
    charged: tuple[Extended, ...] = ()
    qos: QosClass = QosClass.GUARANTEED


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRule:
    """The topology request of tasks (Kueue, KEP-2724 "Topology aware scheduling").

    `level` is the node label that names the domains (a rack, a zone, `kubernetes.io/hostname`); empty only
    when unconstrained. `preferred_level` names a finer level that is preferred. With `slice_level`, every
    `slice_size` tasks share a domain of a finer level, and roles with the same `companions` name are placed
    in one domain: both are for actions that place the tasks of topology-aware flavors.
    """

    level: str = ""
    mode: TopologyMode = TopologyMode.PREFERRED
    slice_level: str = ""
    slice_size: int = 0
    companions: str = ""
    preferred_level: str = ""

    @property
    def levels(self) -> tuple[str, ...]:
        """The node labels that the rule requires."""
        return tuple(label for label in (self.level, self.slice_level) if label)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGang:
    """A part of a job that starts completely or not at all; parts may nest.

    `min_available` counts tasks of the roles that name this part, `min_parts` the parts below that
    must start; None means all of them.
    """

    name: str
    parent: str | None = None
    min_available: int | None = None
    min_parts: int | None = None
    topology: TopologyRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A group of equal tasks. `min_replicas` below `replicas` makes it elastic; None means all.

    `rules`, if given, replace those of the job; `topology` is for actions that place the tasks of
    topology-aware flavors. `ended` tasks have finished and need neither placement nor quota. `sub_gang` names
    the part of the job it belongs to.
    """

    name: str
    replicas: int
    request: Request
    min_replicas: int | None = None
    ended: int = 0
    rules: PlacementRules | None = None
    topology: TopologyRule | None = None
    sub_gang: str = ""

    @property
    def min_count(self) -> int:
        """The minimum number of tasks with which the role is useful."""
        return self.replicas if self.min_replicas is None else self.min_replicas


@dataclass(frozen=True, slots=True)
class Allowance:
    """A cap on the sum over jobs that name the same `id`; `held` is their present sum."""

    id: str
    resource: ResourceName
    limit: int
    held: int


@dataclass(frozen=True, slots=True)
class BarredFlavor:
    """A flavor in which a job may not start because the budget of `tenant`, in GPU-hours, is exhausted.

    With `preemptible_only` it could start if it were preemptible.
    """

    flavor: str
    tenant: str
    used_hours: int
    budget_hours: int
    preemptible_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. Run times in seconds; `backoff_until` is when it may be tried again.

    `min_available` is the smallest gang that may run; None means the sum over roles of their least replicas.
    `admitted_at` (when quota was reserved), `evictions` and `evicted_at` (the last of them) describe earlier
    and present attempts; `running_since` is when the last task of the present gang came up. Work is saved
    every `checkpoint_interval_s`; None means never. `preempting` marks a job with victims; before
    `preempts_after` it gets none.
    `max_idle_s` is how long its cards may be idle, which they are since `idle_since`; None or negative is
    never. One that `shrinks_when_idle` gives up its surplus then, if it has any, and is evicted otherwise;
    idle jobs do not grow, nor those without `grows`, and others not before `grow_after` beyond their minimum.
    A job that is not `movable` may be evicted, but consolidation does not move it. `allowances` are the caps
    that it counts against, `barred` the flavors whose budget does not let it start. A job that was `drained`
    does not borrow again, until `drained_until` if that is known.
    """

    id: str
    queue: str
    roles: tuple[Role, ...]
    submitted_at: Instant
    user: str = ""
    priority: int = 0
    min_available: int | None = None
    preemptible: bool = True
    min_run_s: int | None = None
    max_run_s: int | None = None
    rules: PlacementRules = ANYWHERE
    backoff_until: Instant | None = None
    state: JobState = JobState.QUEUED
    admitted_at: Instant | None = None
    evictions: int = 0
    evicted_at: Instant | None = None
    running_since: Instant | None = None
    checkpoint_interval_s: int | None = None
    preempting: bool = False
    preempts_after: Instant | None = None
    idle_since: Instant | None = None
    max_idle_s: int | None = None
    shrinks_when_idle: bool = False
    grows: bool = True
    grow_after: Instant | None = None
    topology: TopologyRule | None = None
    sub_gangs: tuple[SubGang, ...] = ()
    movable: bool = True
    allowances: tuple[Allowance, ...] = ()
    barred: tuple[BarredFlavor, ...] = ()
    drained: bool = False
    drained_until: Instant | None = None

    @property
    def attempt_started_at(self) -> Instant | None:
        """The start of the present attempt: when the gang was complete, or its admission before."""
        return self.admitted_at if self.running_since is None else self.running_since

    @property
    def waiting_since(self) -> Instant:
        """The time since which a pending job waits: its submission, or its last eviction."""
        return self.submitted_at if self.evicted_at is None else self.evicted_at

    @property
    def has_fixed_size(self) -> bool:
        """True if the job has one size only, so that it has no surplus."""
        if self.min_available is not None or self.sub_gangs:
            return False
        # A loop takes half the time of `all`, and this runs for every job.
        for role in self.roles:  # noqa: SIM110
            if role.min_count < role.replicas:
                return False
        return True

    def rules_of(self, role: Role) -> PlacementRules:
        """Return the placement rules of a role."""
        return self.rules if role.rules is None else role.rules


class DeviceSlice(NamedTuple):
    """The allocation of one card to a task: core units and MiB; `exclusive` is the whole card."""

    device: str
    cores: int
    memory: int
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The allocation of node, cards and quota to one task.

    `charges` are reserved in `queue` for this task until the allocation is released. A task has one live
    allocation: its id is `<job>/<role>/<index>`. `leaving` marks a task that was marked for eviction or stop
    and still holds all of it. `node` is empty if the flavor is not placed. `wanted_memory` is the MiB of each
    card that it should have by its measured use, None for no change; it lent memory at `lent_at`. `rules`, if
    given, replace those of its job, which the snapshot then need not list for the affinity of others to the
    task.
    """

    job: str
    queue: str
    role: str
    index: int
    flavor: str
    node: str
    cpu: int = 0
    memory: int = 0
    slices: tuple[DeviceSlice, ...] = ()
    charges: tuple[Charge, ...] = ()
    extended: tuple[Extended, ...] = ()
    leaving: bool = False
    wanted_memory: int | None = None
    lent_at: Instant | None = None
    rules: PlacementRules | None = None
    # The id is read far more often than allocations are created, so it is computed once.
    id: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.job}/{self.role}/{self.index}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of a pending job: the capacity and quota that terminating tasks still hold.

    `allocations` are its future allocations, `leaving` the ids of the allocations that must be released
    first, `until` is when the claim ends.
    """

    job: str
    allocations: tuple[Allocation, ...]
    leaving: tuple[str, ...]
    until: Instant
