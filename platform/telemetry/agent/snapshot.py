"""The result of one poll, for /metrics and for the platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, float]
"""Values by the name of the measure in `clusters.gpu.measures`; an unknown value is absent."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A GPU or a MIG instance; `parent` is the GPU of an instance.

    `lists_processes`: whether all processes on it are known.
    """

    uuid: str
    parent: str | None
    index: int
    values: Values
    lists_processes: bool = True


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """A process on a device; `pod_uid` is None for a process outside of pods."""

    device: str
    pid: int
    name: str
    pod_uid: str | None
    container_id: str | None
    values: Values


@dataclass(frozen=True, slots=True)
class SliceSample:
    """The use of one device by one container of one of the platform's pods."""

    device: str
    pod_uid: str
    namespace: str
    pod: str
    container: str
    values: Values


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of a device, or of the driver (`device` None)."""

    kind: str
    device: str | None
    monotonic_s: float
    code: int | None = None


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """The result of one poll. `absent`: why known devices have no sample, by uuid."""

    monotonic_s: float
    devices: tuple[GpuSample, ...] = ()
    slices: tuple[SliceSample, ...] = ()
    processes: tuple[ProcessSample, ...] = ()
    events: tuple[AgentEvent, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, list[str]] = field(default_factory=dict)
    inventory: Mapping[str, Any] | None = None
