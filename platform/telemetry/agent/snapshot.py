"""The result of one poll, for /metrics and for the platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, float]
"""Values by the name of the measure in `clusters.gpu.measures`; what is not known is absent."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A GPU or a MIG instance; `parent` is the GPU of an instance.

    `lists_processes`: whether the processes on it are known, all of them.
    """

    uuid: str
    parent: str | None
    index: int
    values: Values
    lists_processes: bool = True


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """A process on a device; `pod_uid` is None for one that runs in no pod."""

    device: str
    pid: int
    name: str
    pod_uid: str | None
    container_id: str | None
    values: Values


@dataclass(frozen=True, slots=True)
class SliceSample:
    """The use that one container of one of the platform's pods makes of one device."""

    device: str
    pod_uid: str
    namespace: str
    pod: str
    container: str
    values: Values


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """Something that happened to a device, or to the driver (`device` None)."""

    kind: str
    device: str | None
    monotonic_s: float
    code: int | None = None


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """One poll. `absent`: why known devices have no sample, by uuid."""

    monotonic_s: float
    devices: tuple[GpuSample, ...] = ()
    slices: tuple[SliceSample, ...] = ()
    processes: tuple[ProcessSample, ...] = ()
    events: tuple[AgentEvent, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, list[str]] = field(default_factory=dict)
    inventory: Mapping[str, Any] | None = None
