"""The use that each container makes of each GPU, from NVML's processes and from HAMi's files.

The containers themselves write the files, so implausible values in them are limited: NVML's measurements come
first, and a value of a file is limited to the size of the card, 100 percent, and the time since the container
was started. A container without a process on a device does not use it, whatever its file says. Of a device
that NVML did not measure only limits are reported. The allocated limit is what the platform wrote on the pod.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from clusters.gpu.hami import CardShare
from telemetry.agent.cgroups import ProcessTable
from telemetry.agent.pods import PodView
from telemetry.agent.regions import Absent, NotReady, Region, Unusable, folder_of, read_regions
from telemetry.agent.snapshot import GpuSample, ProcessSample, SliceSample, Values

MIB: Final = 1 << 20
_MEMORY, _UTILIZATION = "memory_used_mib", "utilization_percent"
SLICE_MEASURES: Final = (_UTILIZATION, _MEMORY, "memory_limit_mib", "memory_enforced_mib", "idle_s")
_WHOLE: Final = 100
"""Percent points of compute of a card that one container holds alone."""
_GAP_S: Final = 300.0
"""After so many seconds without a measurement, a device counts as in use until the next one."""

Key = tuple[str, str, str]
"""The pod's uid, the container's name, the device's uuid."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The findings about one container on one device.

    `regions` is None if it has no file, `sample` if NVML did not measure the device. `is_empty`: the
    container certainly has no process there.
    """

    pod: PodView
    container: str
    device: str
    share: CardShare | None
    processes: list[ProcessSample]
    regions: list[Region] | None
    sample: GpuSample | None
    is_empty: bool

    @property
    def key(self) -> Key:
        return (self.pod.uid, self.container, self.device)


@dataclass(slots=True)
class SliceReader:
    """Makes the samples of slices. `root`: the folder in which HAMi keeps the folders of containers.

    `problems` counts the unusable files by reason. `sees_host`: whether the processes of the whole node are
    visible, so that a missing process has ended.
    """

    root: Path
    table: ProcessTable
    sees_host: bool = True
    problems: Counter[str] = field(default_factory=Counter)
    _active: dict[Key, float] = field(default_factory=dict)
    _measured: dict[str, float] = field(default_factory=dict)
    """The time of the last measurement of each device."""

    def read(
        self,
        pods: Mapping[str, PodView],
        devices: Iterable[GpuSample],
        processes: Collection[ProcessSample],
        totals_mib: Mapping[str, float],
        now: float,
    ) -> list[SliceSample]:
        """Return a sample for each container and device.

        `totals_mib`: the memory of devices; `now`: seconds since 1970.
        """
        by_uuid = {device.uuid: device for device in devices}
        self._note_gaps(by_uuid.keys(), now)
        mapped = _by_container(pods, processes)
        # A process that is invisible to this program may belong to any container.
        hidden = {process.device for process in processes if process.pod_uid is None and not process.name}
        samples, seen = [], set()
        for pod in pods.values():
            for container in sorted(
                {*pod.shares, *(key[1] for key in mapped if key[0] == pod.uid and key[1])}
            ):
                shares = pod.shares.get(container, {})
                regions = self._read_regions(pod, container) if shares else None
                used = {key[2] for key in mapped if key[:2] == (pod.uid, container)}
                for uuid in sorted({*shares, *used}):
                    key = (pod.uid, container, uuid)
                    seen.add(key)
                    here, sample = mapped.get(key, []), by_uuid.get(uuid)
                    # A process of the pod with an unknown container may belong to this one.
                    is_empty = (
                        self._sees_processes(sample, hidden)
                        and not here
                        and (pod.uid, "", uuid) not in mapped
                    )
                    found = _Found(pod, container, uuid, shares.get(uuid), here, regions, sample, is_empty)
                    values = self._measure(found, totals_mib.get(uuid), now)
                    samples.append(SliceSample(uuid, pod.uid, pod.namespace, pod.name, container, values))
        self._active = {
            key: at
            for key, at in self._active.items()
            if key in seen or (key[0] in pods and key[2] not in by_uuid)
        }
        return samples

    def _sees_processes(self, sample: GpuSample | None, hidden: set[str]) -> bool:
        return sample is not None and sample.lists_processes and self.sees_host and sample.uuid not in hidden

    def _note_gaps(self, measured: Collection[str], now: float) -> None:
        """Restart the idle time of containers on devices that were not measured for long."""
        late = {uuid for uuid in measured if now - self._measured.get(uuid, now) > _GAP_S}
        self._active = {key: now if key[2] in late else at for key, at in self._active.items()}
        self._measured.update(dict.fromkeys(measured, now))

    def _read_regions(self, pod: PodView, container: str) -> list[Region] | None:
        try:
            return read_regions(folder_of(self.root, pod.uid, container), partial(self._runs, pod))
        except Absent:
            return None
        except NotReady:
            self.problems["not-ready"] += 1
            return []
        except Unusable:
            self.problems["unusable"] += 1
            return []

    def _runs(self, pod: PodView, host_pid: int) -> bool:
        """Return whether a process in a file may be running: a killed one does not clear its entry."""
        if host_pid <= 0 or not self.sees_host:
            return True
        owner = self.table.find_owner(host_pid)
        return owner is not None and owner.pod_uid == pod.uid

    def _measure(self, found: _Found, total_mib: float | None, now: float) -> dict[str, float]:
        values: dict[str, float] = {}
        if found.share is not None and found.share.memory_mib:
            values["memory_limit_mib"] = float(found.share.memory_mib)
        regions = [region for region in found.regions or () if found.device in region.limits]
        if (enforced := _memory_enforced(found, regions, total_mib)) is not None:
            values["memory_enforced_mib"] = enforced
        if found.sample is None:
            return values
        if (used := _memory_used(found, regions, total_mib)) is not None:
            values[_MEMORY] = used
        if (utilization := _utilization(found, regions, found.sample.values)) is not None:
            values[_UTILIZATION] = utilization
        if (idle_s := self._idle_s(found, regions, now)) is not None:
            values["idle_s"] = idle_s
        return values

    def _idle_s(self, found: _Found, regions: list[Region], now: float) -> float | None:
        started = found.pod.started_at.get(found.container)
        age = max(now - started, 0.0) if started is not None else None
        if found.is_empty:
            return self._idle_without_process(found, regions, age, now)
        if regions:
            self._active[found.key] = now
            return _idle_by_file(regions, age, now)
        if found.regions is None and found.share is not None and not found.processes:
            # HAMi's library creates the file when a process first uses the card.
            return age
        if not found.processes:
            return None
        busy = [process.values.get(_UTILIZATION) for process in found.processes]
        if all(each is None for each in busy):
            self._active[found.key] = now
            return None
        if any(busy) or found.key not in self._active:
            # Its use before the first measurement is unknown, so it counts as active until then.
            self._active[found.key] = now
        return max(now - self._active[found.key], 0.0)

    def _idle_without_process(
        self, found: _Found, regions: list[Region], age: float | None, now: float
    ) -> float | None:
        """Return the time since a process was last seen, or since the last kernel in the file if longer."""
        if found.regions is None and found.key not in self._active:
            return age
        unused = max(now - self._active.setdefault(found.key, now), 0.0)
        idle_s = _idle_by_file(regions, age, now) if regions else 0.0
        return max(unused if age is None else min(unused, age), idle_s)


def _idle_by_file(regions: list[Region], age: float | None, now: float) -> float:
    last = max(region.last_kernel for region in regions)
    most = age or 0.0
    return min(max(now - last, 0.0), most) if last > 0 else most


def _by_container(
    pods: Mapping[str, PodView], processes: Iterable[ProcessSample]
) -> dict[Key, list[ProcessSample]]:
    """Return the processes of pods; the container is "" if it is unknown."""
    found: dict[Key, list[ProcessSample]] = defaultdict(list)
    for process in processes:
        pod = pods.get(process.pod_uid or "")
        if pod is not None:
            container = pod.containers.get(process.container_id or "", "")
            found[(pod.uid, container, process.device)].append(process)
    return found


def _memory_used(found: _Found, regions: list[Region], total_mib: float | None) -> float | None:
    if found.is_empty:
        return 0.0
    known = [process.values.get(_MEMORY) for process in found.processes]
    if known and all(each is not None for each in known):
        return sum(each for each in known if each is not None)
    if not regions or total_mib is None:
        return None
    used = sum(region.used[found.device] for region in regions) / MIB
    return min(used, total_mib)


def _memory_enforced(found: _Found, regions: list[Region], total_mib: float | None) -> float | None:
    """Return the limit in the container's files; no limit (0) is the card's memory."""
    if not regions or total_mib is None:
        return None
    # Allocated memory may exceed the physical memory if HAMi scales it.
    most = max(total_mib, found.share.memory_mib if found.share else 0)
    limits = [region.limits[found.device] / MIB for region in regions]
    return most if 0 in limits else min(max(limits), most)


def _utilization(found: _Found, regions: list[Region], device: Values) -> float | None:
    if found.is_empty:
        return 0.0
    known = [process.values.get(_UTILIZATION) for process in found.processes]
    if known and all(each is not None for each in known):
        return min(sum(each for each in known if each is not None), 100.0)
    if found.share is not None and found.share.cores >= _WHOLE and _UTILIZATION in device:
        return device[_UTILIZATION]
    if not regions:
        return None
    claimed = sum(region.sm[found.device] for region in regions)
    return float(min(claimed, 100))
