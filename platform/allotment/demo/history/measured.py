"""The measurements of the simulated week, computed from the allocations of its jobs, so that charts,
reports and job pages show the same GPUs in use.

All values are computed in arrays by GPU and interval, as means over the intervals of the load that the
simulated cluster reports, so that charts show no step where its own measurements begin. Left out are how a
GPU cools down after a job, and the demo's faults, which begin with its start. An interval in which the
cluster did not respond has no measurements.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clusters.backends.simulated.card_values import card_family
from clusters.backends.simulated.load import HEAT_S, RIPPLE, SWELL, WARM_UP_S, LoadCurve
from clusters.backends.simulated.samples import DRIVER_MIB, temperature_c
from clusters.backends.simulated.script import Script
from clusters.models import Device
from scheduling.models import DeviceSlice
from telemetry.store.times import TICK_MS, to_ms

Floats = npt.NDArray[np.float64]
OUTAGE: Final = (timedelta(days=2, hours=13, minutes=30), timedelta(days=2, hours=15))
"""When the cluster did not respond, from the start of the week; multiples of 15 and of 10 minutes."""


class WeekSlice(NamedTuple):
    """The hold of one allocation on one GPU; `active_ms` is when its pod began to run, None for never.

    `load` is the pod's use of the GPU.
    """

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
    load: LoadCurve


class WeekDevice(NamedTuple):
    """One GPU of the demo."""

    id: uuid.UUID
    node_id: uuid.UUID
    memory_mib: int
    model: str
    uuid: str


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
    used meanwhile, in percent points and MiB; `heat` is the compute whose heat the GPU has taken up."""

    hold: WeekSlice
    columns: slice
    held: Floats
    cores_used: Floats
    memory_used: Floats
    heat: Floats


def read_devices() -> list[WeekDevice]:
    """Return the GPUs of the demo."""
    rows = Device.unscoped.filter(node__cluster__name="demo").order_by("node__name", "index")
    return [WeekDevice(*row) for row in rows.values_list("pk", "node_id", "memory_mib", "model", "uuid")]


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
        "allocation__attempt__started_at", "allocation__pod_name", "device__uuid",
        "allocation__attempt__job__simulate",
    )  # fmt: skip
    found = []
    for *ids, since, until, active, pod, device, simulate in rows.values_list(*columns):
        until = now if until is None else min(until, now)
        times = (to_ms(since), to_ms(until), None if active is None else min(to_ms(active), to_ms(until)))
        load = LoadCurve.for_pod(f"{pod}/{device}", Script.read_simulate(simulate).utilisation)
        found.append(WeekSlice._make((*ids, *times, load)))
    return found


def slice_series(slices: Sequence[WeekSlice], grid: Grid) -> Iterator[SliceSeries]:
    """Yield each hold that touches the grid."""
    for hold in slices:
        columns, held = grid.share_of(hold.since_ms, hold.until_ms)
        if not held.size:
            continue
        used, memory, heat = (np.zeros(held.size) for _ in range(3))
        if hold.active_ms is not None:
            active, share = grid.share_of(hold.active_ms, hold.until_ms)
            of_hold = slice(active.start - columns.start, active.stop - columns.start)
            ran = share / held[of_hold]
            edges_ms = np.arange(active.start, active.stop + 1) + grid.first
            edges_ms = np.clip(edges_ms * grid.step_ms, hold.active_ms, hold.until_ms)
            use, late = average_use(hold.load, hold.active_ms, edges_ms)
            used[of_hold] = hold.cores * use * ran
            heat[of_hold] = hold.cores * late * ran
            memory[of_hold] = hold.memory_mib * hold.load.memory_share * ran
        yield SliceSeries(hold, columns, held, used, memory, heat)


def average_use(load: LoadCurve, active_ms: int, edges_ms: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the mean share of its compute that a pod uses between successive moments, and that of
    `HEAT_S` before, by which the heat of the GPU follows.

    Both are differences of one integral, in steps of a tick, so that long intervals have the averages of
    short ones.
    """
    first, last = edges_ms[0] // TICK_MS - round(HEAT_S * 1000) // TICK_MS - 1, -(-edges_ms[-1] // TICK_MS)
    at_s = (np.arange(first, last) + 0.5) * TICK_MS / 1000
    shares = np.ones(at_s.size)
    for height, period_s, phase in (
        (SWELL, load.swell_s, load.swell_at),
        (RIPPLE, load.ripple_s, load.ripple_at),
    ):
        shares += height * np.sin(math.tau * (at_s / period_s + phase))
    warm = 1.0 - np.exp(-np.maximum(at_s - active_ms / 1000, 0.0) / WARM_UP_S)
    integral = np.concatenate(([0.0], np.cumsum(np.clip(load.mean * shares, 0.0, load.most) * warm)))
    places, ticks = edges_ms / TICK_MS - first, np.arange(integral.size)
    length = np.maximum(np.diff(places), 1e-9)
    now, before = (
        np.minimum(np.diff(np.interp(places - delay_ms / TICK_MS, ticks, integral)) / length, load.most)
        for delay_ms in (0.0, HEAT_S * 1000)
    )
    return now, before


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
    heat: Floats

    @classmethod
    def sum_holds(cls, devices: Sequence[WeekDevice], grid: Grid, series: Sequence[SliceSeries]) -> GpuMatrix:
        """Add up the holds of each GPU."""
        shape = (len(devices), len(grid))
        made = cls(devices, grid, *(np.zeros(shape) for _ in range(6)))
        rows = {device.id: row for row, device in enumerate(devices)}
        for one in series:
            at = (rows[one.hold.device_id], one.columns)
            made.cores_used[at] += one.cores_used * one.held
            made.memory_used[at] += one.memory_used * one.held
            made.cores_allocated[at] += one.hold.cores * one.held
            made.memory_allocated[at] += one.hold.memory_mib * one.held
            made.held[at] += one.held
            made.heat[at] += one.heat * one.held
        np.minimum(made.held, 1.0, out=made.held)
        for shares in (made.cores_used, made.heat):
            np.minimum(shares, 100.0, out=shares)
        made.memory_used += DRIVER_MIB
        return made

    def power_w(self) -> Floats:
        """Return the power of each GPU."""
        families = [card_family(device.model) for device in self.devices]
        idle = np.array([[family.idle_w] for family in families], dtype=float)
        most = np.array([[family.limit_w] for family in families], dtype=float)
        power: Floats = idle + (most - idle) * self.cores_used / 100.0
        return power

    def temperature_c(self) -> Floats:
        """Return the temperature of each GPU, whose cooling is its own."""
        idle = np.array([[temperature_c(device.uuid, 0.0)] for device in self.devices])
        full = np.array([[temperature_c(device.uuid, 1.0)] for device in self.devices])
        heat: Floats = idle + (full - idle) * self.heat / 100.0
        return heat
