"""The measures of one node at one moment: the format in which the node agent and the readers of exporters
deliver measurements.

Names and units of the values are those of `clusters.gpu.measures`; a measure that is not known is absent.
Times are milliseconds since 1970 in UTC. `clusters.gpu.report` reads this shape from JSON and checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Values = Mapping[str, float]
"""Values by measure, in the units of the catalogue."""


class EventKind(StrEnum):
    """An incident of a GPU. `enumerated`: the agent listed the GPUs of its node again."""

    XID = "xid"
    LOST = "lost"
    RESET_REQUIRED = "reset-required"
    DRIVER_MISMATCH = "driver-mismatch"
    ENUMERATED = "enumerated"


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """A GPU, or a MIG instance of the GPU `parent`."""

    uuid: str
    values: Values
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class SliceValues:
    """The use of a GPU by one container of a pod. A pod is identified by its uid, or by namespace and name if
    the source does not know the uid."""

    device: str
    values: Values
    pod_uid: str = ""
    container: str = ""
    namespace: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class ProcessValues:
    """One process on a GPU. `pod_uid` and `container_id` are None if its cgroup names none."""

    device: str
    pid: int
    name: str
    values: Values
    pod_uid: str | None = None
    container_id: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An incident of a GPU, or of all GPUs of a node if `device` is None. `code`: of an XID error."""

    device: str | None
    kind: EventKind
    at_ms: int
    code: int | None = None


@dataclass(frozen=True, slots=True)
class MeasureBatch:
    """All measurements on one node at `at_ms`; the next batch follows `interval_ms` later."""

    node: str
    at_ms: int
    interval_ms: int = 15_000
    devices: tuple[DeviceValues, ...] = ()
    slices: tuple[SliceValues, ...] = ()
    processes: tuple[ProcessValues, ...] = ()
    events: tuple[DeviceEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """A connection to another GPU: `kind` as NVML names the nearest common ancestor, or `nvlink`."""

    to: str
    kind: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The facts of a GPU; None if the driver does not report one."""

    uuid: str
    name: str = ""
    serial: str = ""
    index: int | None = None
    minor: int | None = None
    pci_bus_id: str = ""
    numa_node: int | None = None
    memory_mib: int | None = None
    mig_enabled: bool | None = None
    parent: str | None = None
    links: tuple[DeviceLink, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGpuFacts:
    """The driver versions and all GPUs of a node."""

    driver: str = ""
    nvml: str = ""
    cuda: str = ""
    devices: tuple[GpuFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One request of an agent. `unsupported`: measures that a GPU does not support, by its UUID."""

    node: str
    sent_at_ms: int
    batches: tuple[MeasureBatch, ...]
    inventory: NodeGpuFacts | None = None
    unsupported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
