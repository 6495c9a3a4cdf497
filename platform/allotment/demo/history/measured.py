"""The measurements of the simulated week, computed from the allocations of its jobs, so that charts,
reports and job pages show the same GPUs in use.

All values are computed in arrays by GPU and interval. The use of a GPU is that of the jobs that hold it, with
a little noise; it begins when their pods run. An interval in which the cluster did not answer has no
measurements.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clusters.backends.simulated.card_values import card_family
from clusters.models import Device
from scheduling.models import DeviceSlice
from telemetry.store.times import to_ms

Floats = npt.NDArray[np.float64]
OUTAGE: Final = (timedelta(days=2, hours=13, minutes=30), timedelta(days=2, hours=15))
"""When the cluster did not answer, from the start of the week; multiples of 15 and of 10 minutes."""
_IDLE_C: Final = 31.0
_HOTTER_C: Final = 42.0
_MEMORY_SHARE: Final = 0.35
"""The least share of its GPU memory that a running job uses."""
_NOISE_MEAN: Final = 0.985
_NOISE_HEIGHT: Final = 0.135
_WAVES_S: Final = (37.0, 131.0, 610.0, 2_900.0, 11_000.0)
"""The use of a job varies between 0.85 and 1.12 of its own, in waves of these lengths."""


class WeekSlice(NamedTuple):
    """The hold of one allocation on one GPU; `active_ms` is when its pod began to run, None for never."""

    allocation_id: uuid.UUID
    device_id: uuid.UUID
    node_id: uuid.UUID
    task_id: uuid.UUID
    job_id: uuid.UUID
    workspace_id: uuid.UUID
    user_id: uuid.UUID
    flavor_id: uuid.UUID
    cores: int
    memory_mib: int
    since_ms: int
    until_ms: int
    active_ms: int | None
    use: float


class WeekDevice(NamedTuple):
    """One GPU of the demo."""

    id: uuid.UUID
    node_id: uuid.UUID
    memory_mib: int
    model: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Intervals of `step_ms` from `first` to before `last`, numbered since 1970."""

    step_ms: int
    first: int
    last: int

    @classmethod
    def cover_period(cls, start: datetime, end: datetime, step_ms: int) -> Grid:
        """Return the whole intervals between two moments."""
        return cls(step_ms, -(-to_ms(start) // step_ms), to_ms(end) // step_ms)

    def __len__(self) -> int:
        return max(0, self.last - self.first)

    def share_of(self, since_ms: int, until_ms: int) -> tuple[slice, Floats]:
        """Return the columns of the intervals that a span overlaps, and the share of each that it covers."""
        begin = max(since_ms / self.step_ms - self.first, 0.0)
        end = min(until_ms / self.step_ms - self.first, float(len(self)))
        if end <= begin:
            return slice(0, 0), np.zeros(0)
        columns = np.arange(int(begin), int(np.ceil(end)))
        return slice(int(columns[0]), int(columns[-1]) + 1), np.minimum(columns + 1, end) - np.maximum(
            columns, begin
        )

    def is_measured(self, outage: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """Return for each interval whether any of it lies outside an outage (ms)."""
        begins = (np.arange(self.first, self.last)) * self.step_ms
        whole: npt.NDArray[np.bool_] = (begins >= outage[0]) & (begins + self.step_ms <= outage[1])
        return ~whole


class SliceSeries(NamedTuple):
    """One hold on a grid: its columns, the share of each during which it was held, and the compute and memory
    used meanwhile, in percent points and MiB."""

    hold: WeekSlice
    columns: slice
    held: Floats
    cores_used: Floats
    memory_used: Floats


def read_devices() -> list[WeekDevice]:
    """Return the GPUs of the demo."""
    rows = Device.unscoped.filter(node__cluster__name="demo").order_by("node__name", "index")
    return [WeekDevice(*row) for row in rows.values_list("pk", "node_id", "memory_mib", "model")]


def read_slices(start: datetime, now: datetime) -> list[WeekSlice]:
    """Return the slices of GPUs that the jobs of the week held until `now`, in order of time."""
    rows = DeviceSlice.unscoped.filter(
        allocation__created_at__gte=start, allocation__created_at__lt=now
    ).order_by("allocation__created_at", "pk")
    columns = (
        "allocation_id", "device_id", "allocation__node_id", "allocation__task_id",
        "allocation__attempt__job_id", "allocation__attempt__job__workspace_id",
        "allocation__attempt__job__submitted_by_id",
        "allocation__flavor_id", "cores", "memory_mib", "allocation__created_at", "allocation__released_at",
        "allocation__attempt__started_at", "allocation__attempt__job__simulate",
    )  # fmt: skip
    found = []
    for *ids, since, until, active, simulate in rows.values_list(*columns):
        until = now if until is None else min(until, now)
        times = (to_ms(since), to_ms(until), None if active is None else min(to_ms(active), to_ms(until)))
        found.append(WeekSlice._make((*ids, *times, float(simulate.get("gpu_utilisation", 0.0)))))
    return found


def slice_series(slices: Sequence[WeekSlice], grid: Grid) -> Iterator[SliceSeries]:
    """Yield each hold that touches the grid."""
    for hold in slices:
        columns, held = grid.share_of(hold.since_ms, hold.until_ms)
        if not held.size:
            continue
        used, memory = np.zeros(held.size), np.zeros(held.size)
        if hold.active_ms is not None:
            active, share = grid.share_of(hold.active_ms, hold.until_ms)
            offset = active.start - columns.start
            ran = np.zeros(held.size)
            ran[offset : offset + share.size] = share
            edges = np.arange(active.start, active.stop + 1) + grid.first
            level = np.zeros(held.size)
            level[offset : offset + share.size] = _average_use(
                hold, np.clip(edges * grid.step_ms, hold.active_ms, hold.until_ms)
            )
            used = level * hold.cores * ran / held
            memory = (_MEMORY_SHARE + (1 - _MEMORY_SHARE) * min(hold.use, 1.0)) * hold.memory_mib * ran / held
        yield SliceSeries(hold, columns, held, used, memory)


def _average_use(hold: WeekSlice, edges_ms: npt.NDArray[np.int64]) -> Floats:
    """Return the use of a running hold between successive moments, 0 to 1: its own with noise around it.

    The noise is a sum of waves, whose integral is known. So averages over long intervals are the averages of
    those over short ones, and charts of every grain agree.
    """
    rng = np.random.default_rng(hold.allocation_id.int & 0xFFFFFFFF)
    phases = rng.uniform(0.0, 2 * np.pi, len(_WAVES_S))
    mean = min(_NOISE_MEAN * hold.use, 1.0)
    height = min(_NOISE_HEIGHT * hold.use, 1.0 - mean) / len(_WAVES_S)
    seconds = (edges_ms - hold.since_ms) / 1000.0
    integral = np.zeros(seconds.size)
    for wave_s, phase in zip(_WAVES_S, phases, strict=True):
        integral -= wave_s / (2 * np.pi) * np.cos(2 * np.pi * seconds / wave_s + phase)
    average: Floats = mean + height * np.diff(integral) / np.maximum(np.diff(seconds), 1e-3)
    return average


@dataclass(slots=True)
class GpuMatrix:
    """Means over each interval, by GPU (row) and interval (column); `held` is the share of the interval in
    which any job held the GPU."""

    devices: Sequence[WeekDevice]
    grid: Grid
    cores_used: Floats
    cores_allocated: Floats
    memory_used: Floats
    memory_allocated: Floats
    held: Floats

    @classmethod
    def sum_holds(cls, devices: Sequence[WeekDevice], grid: Grid, series: Sequence[SliceSeries]) -> GpuMatrix:
        """Add up the holds of each GPU."""
        shape = (len(devices), len(grid))
        made = cls(devices, grid, *(np.zeros(shape) for _ in range(5)))
        rows = {device.id: row for row, device in enumerate(devices)}
        for one in series:
            at = (rows[one.hold.device_id], one.columns)
            made.cores_used[at] += one.cores_used * one.held
            made.memory_used[at] += one.memory_used * one.held
            made.cores_allocated[at] += one.hold.cores * one.held
            made.memory_allocated[at] += one.hold.memory_mib * one.held
            made.held[at] += one.held
        np.minimum(made.held, 1.0, out=made.held)
        return made

    def power_w(self) -> Floats:
        """Return the power of each GPU."""
        families = [card_family(device.model) for device in self.devices]
        idle = np.array([[family.idle_w] for family in families], dtype=float)
        most = np.array([[family.limit_w] for family in families], dtype=float)
        power: Floats = idle + 0.82 * (most - idle) * self.cores_used / 100.0
        return power

    def temperature_c(self) -> Floats:
        """Return the temperature of each GPU; those in the middle of a node are a little warmer."""
        place = np.array([[row % 8 / 4.0] for row in range(len(self.devices))])
        return _IDLE_C + place + _HOTTER_C * self.cores_used / 100.0
