"""Nodes, cards and flavors as one cycle sees them.

Capacity is data: a live card has 100 core units, a trace that counts thousandths has 1000. The code
that builds the snapshot multiplies physical amounts by the over-commit factor; the engine sees capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.engine.model.kinds import GpuMode


class TaintEffect(StrEnum):
    """The taint effects of Kubernetes; `PreferNoSchedule` excludes no task."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """The operator of a toleration: `Equal` compares the value, `Exists` accepts any."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark on a node that excludes every task that does not tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Toleration:
    """The taints that a task accepts. An empty key with `Exists` accepts all; no effect means any effect."""

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None

    def tolerates_taint(self, taint: Taint) -> bool:
        """Return whether this toleration accepts the taint, by Kubernetes' rule."""
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.operator is TolerationOperator.EXISTS:
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


class Pressure(StrEnum):
    """A pressure of a node. Disk and PID pressure exclude every new task, memory best-effort ones."""

    MEMORY = "memory"
    DISK = "disk"
    PID = "pid"


@dataclass(frozen=True, slots=True, order=True)
class Extended:
    """An amount of a resource that nodes offer under a name of their own, such as a network card."""

    resource: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One card of a node, or one MIG instance, with its present usage.

    Units: `cores` in core units (100 per card on a live platform), `memory` in MiB. `holders` counts
    the tasks that use a part of it; `exclusive` means that one task has the whole card. A MIG instance is a
    device of mode `mig` with its `profile`, its part of the card's cores, and its own memory.
    """

    uuid: str
    index: int
    model: str
    mode: GpuMode = GpuMode.WHOLE
    healthy: bool = True
    cores: int = 100
    memory: int = 0
    used_cores: int = 0
    used_memory: int = 0
    holders: int = 0
    exclusive: bool = False
    profile: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. `cpu` in millicores, `memory` in MiB, both allocatable; `used_*` is the present usage.

    `used_*` covers everything on the node, live allocations of the snapshot included. `rank` is
    the tie-break among equally good nodes: lower first, then the smaller id. `pods` is how many tasks
    the node takes, None for no limit. `extended` are its named resources.
    """

    id: str
    cluster: str = ""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    schedulable: bool = True
    cpu: int = 0
    memory: int = 0
    used_cpu: int = 0
    used_memory: int = 0
    devices: tuple[Device, ...] = ()
    rank: int = 0
    pods: int | None = None
    used_pods: int = 0
    extended: tuple[Extended, ...] = ()
    used_extended: tuple[Extended, ...] = ()
    pressure: tuple[Pressure, ...] = ()

    @property
    def hostname(self) -> str:
        """The name that a job may request; the id if there is none."""
        return self.name or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A pool: the nodes of one cluster that carry all of `node_labels`.

    A job must tolerate `taints` to use the pool; `tolerations` are added to each of its tasks.
    `card_memory` (MiB) is the nominal memory that a whole card charges and that percentages refer
    to; `card_cores` the core units of a whole card. An empty `card_model` means that the pool is
    not tied to one model. `policy` names a placement policy of the engine's configuration.
    A flavor that is not `placed` is quota only: another scheduler chooses the nodes. `topology` lists the
    node labels that name its domains, coarse to fine. `mig_slices` is the number of equal parts into
    which MIG divides a card's compute.
    The nodes of a `topology_aware` flavor take their tasks from an action of another package, which places
    them by domain: the engine charges such tasks and places none of them.
    """

    id: str
    cluster: str = ""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    card_model: str = ""
    card_memory: int = 0
    card_cores: int = 100
    mode: GpuMode = GpuMode.WHOLE
    policy: str = "compact"
    placed: bool = True
    topology: tuple[str, ...] = ()
    mig_slices: int = 7
    topology_aware: bool = False

    @property
    def takes_tasks(self) -> bool:
        """Return whether the engine places the flavor's tasks on its nodes."""
        return self.placed and not self.topology_aware
