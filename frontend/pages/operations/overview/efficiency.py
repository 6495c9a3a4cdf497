"""Causes of lost GPUs: idle allocations, slices beyond their share, processes without an allocation,
fragments; and when quota will be full.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET

from clusters.models import Device
from clusters.selectors.shapes import PoolRoom, pool_rooms
from foundation.core import clock
from frontend.pages.operations.cluster_scope import build_address, ops_frame, scope_of
from frontend.pages.operations.overview.summary import Tile, job_url
from frontend.pages.quotas.forecast import forecast_line
from frontend.shell import navigation
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.texts import formats
from scheduling.models import DeviceSlice
from telemetry.series import utilisation_now
from telemetry.series.readings.agents import StrayProcess, has_fresh_agent, stray_processes
from telemetry.series.readings.idle import IdleHold, idle_holds
from telemetry.series.readings.over_use import OverUse, SliceLine, slice_lines
from telemetry.store.times import from_ms
from telemetry.usage.forecast import quota_forecasts

SHOWN: Final = 50
"""The maximum number of lines of a table; the longest idle and the most over-used come first."""
_CAUSES: Final[dict[str, str | Promise]] = {
    "unhealthy": gettext_lazy("Unhealthy GPUs"),
    "not-ready": gettext_lazy("Node not ready"),
    "cordoned": gettext_lazy("Node cordoned"),
    "closed": gettext_lazy("Node closed to new jobs"),
    "cpu-full": gettext_lazy("CPU of the node exhausted"),
    "partly-allocated": gettext_lazy("Rest of partly allocated GPUs"),
}
_OVER: Final[dict[OverUse, str | Promise]] = {
    OverUse.MEMORY: gettext_lazy("GPU memory above allocation"),
    OverUse.COMPUTE: gettext_lazy("Compute above allocation"),
    OverUse.LIMIT: gettext_lazy("Memory limit changed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLine:
    """A GPU with a job on it, and links to both."""

    key: uuid.UUID
    gpu: str
    gpu_url: str
    job: str
    job_url: str
    workspace: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleLine(GpuLine):
    """`never`: the GPU was not used since it was allocated."""

    allocated: str
    since: datetime
    never: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceUseLine(GpuLine):
    """One slice and its use: compute in percent of the GPU, memory in MiB; None without a reading in the last
    30 s.
    """

    cores: int
    cores_used: float | None
    memory_mib: int
    memory_used: int | None
    over: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayLine:
    """A process without an allocation."""

    key: uuid.UUID
    gpu: str
    gpu_url: str
    name: str
    pid: int
    pod: str
    utilization: float | None
    memory: int | None
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomLine:
    """One pool: how many tasks of each shape fit, and which free capacity can't be used."""

    key: uuid.UUID
    name: str
    free: str
    fragmented: float | None
    shapes: Sequence[tuple[str, int, int]]
    stranded: Sequence[tuple[str, str]]


@require_GET
@operator_required
def show_efficiency(request: HttpRequest) -> HttpResponse:
    """Show the whole page."""
    ops_frame(request, scope_of(request))
    return render(request, "frontend/operations/efficiency.html", _context(request))


@require_GET
@operator_required
def efficiency_live(request: HttpRequest) -> HttpResponse:
    """Show everything but the head, with fresh numbers."""
    return render(request, "frontend/operations/efficiency_live.html", _context(request))


def _context(request: HttpRequest) -> dict[str, Any]:
    who, scope = get_viewer(request), scope_of(request)
    cluster_id = scope.cluster_id
    rooms = pool_rooms(viewer=who, cluster_id=cluster_id)
    idle = idle_holds(who, cluster_id=cluster_id)
    measured = bool(utilisation_now(who, cluster_id=cluster_id))
    slices = slice_lines(who, cluster_id=cluster_id)
    stray = stray_processes(who, cluster_id=cluster_id)
    forecasts = quota_forecasts(who, now=clock.now(), cluster_id=cluster_id)
    return {
        "live_url": build_address(reverse("frontend:ops-efficiency-live"), {"cluster": scope.cluster_name}),
        "tiles": [
            _idle_tile(idle, measured=measured),
            _over_tile(slices),
            _stray_tile(stray, reported=has_fresh_agent(who, cluster_id=cluster_id)),
            _stranded_tile(rooms),
        ],
        "rooms": [_room_line(room) for room in rooms],
        "idle_measured": measured,
        "idle": [_idle_line(hold) for hold in idle[:SHOWN]],
        "idle_omitted": max(0, len(idle) - SHOWN),
        "slices": [_slice_line(line) for line in slices[:SHOWN]],
        "slices_omitted": max(0, len(slices) - SHOWN),
        "stray": [_stray_line(process) for process in stray[:SHOWN]],
        "stray_omitted": max(0, len(stray) - SHOWN),
        "forecasts": [forecast_line(forecast) for forecast in forecasts],
    }


def _idle_tile(idle: Sequence[IdleHold], *, measured: bool) -> Tile:
    jobs = len({hold.slice.allocation.attempt.job_id for hold in idle})
    meaning = ngettext("%(n)s job", "%(n)s jobs", jobs) % {"n": jobs} if idle else _("None")
    return Tile(
        label=_("Idle GPUs (allocated, > 5 min)"),
        value=formats.format_number(len(idle) if measured else None),
        meaning=meaning if measured else _("No data in the last 30 s"),
        tone="waiting" if idle else "",
        url="#idle" if idle else "",
    )


def _over_tile(slices: Sequence[SliceLine]) -> Tile:
    measured = [line for line in slices if line.is_measured]
    over = sum(bool(line.over) for line in slices)
    known = bool(measured) or not slices
    meaning = ngettext("of %(n)s slice", "of %(n)s slices", len(measured)) % {"n": len(measured)}
    return Tile(
        label=_("Slices above their allocation"),
        value=formats.format_number(over if known else None),
        meaning=meaning if known else _("No data in the last 30 s"),
        tone="failed" if over else "",
        url="#slices" if over else "",
    )


def _stray_tile(stray: Sequence[StrayProcess], *, reported: bool) -> Tile:
    known = reported or bool(stray)
    return Tile(
        label=_("Processes without an allocation"),
        value=formats.format_number(len(stray) if known else None),
        meaning=_("Seen in the last 10 minutes") if known else _("No reports from node agents"),
        tone="failed" if stray else "",
        url="#stray" if stray else "",
    )


def _stranded_tile(rooms: Sequence[PoolRoom]) -> Tile:
    stranded = sum(sum(room.stranded.values()) for room in rooms)
    return Tile(
        label=_("Stranded GPUs"),
        value=formats.format_gpus(stranded),
        meaning=_("Unallocated but unusable"),
        tone="waiting" if stranded else "",
        url="#room" if stranded else "",
    )


def _room_line(room: PoolRoom) -> RoomLine:
    shapes = []
    for shape in room.shapes:
        if room.sliced:
            name = _("%(n)s %% slice") % {"n": shape.size}
        else:
            name = ngettext("%(n)s GPU", "%(n)s GPUs", shape.size) % {"n": shape.size}
        shapes.append((name, shape.tasks, shape.one_rack))
    return RoomLine(
        key=room.flavor.pk,
        name=room.flavor.name,
        free=formats.format_gpus(room.free),
        fragmented=room.fragmented_percent,
        shapes=shapes,
        stranded=[
            (str(_CAUSES[cause]), formats.format_gpus(points))
            for cause, points in sorted(room.stranded.items(), key=lambda item: -item[1])
        ],
    )


def _gpu(device: Device) -> dict[str, Any]:
    return {
        "gpu": f"{device.node.name} · GPU {device.index}",
        "gpu_url": navigation.find_address("frontend:ops-gpu", uuid=device.uuid),
    }


def _owner(held: DeviceSlice) -> dict[str, Any]:
    job = held.allocation.attempt.job
    return {
        **_gpu(held.device),
        "key": held.pk,
        "job": job.name,
        "job_url": job_url(job.workspace.slug, job.pk),
        "workspace": job.workspace.name,
        "user": job.submitted_by.username,
    }


def _idle_line(hold: IdleHold) -> IdleLine:
    held = hold.slice
    return IdleLine(
        **_owner(held),
        allocated=_("Whole GPU") if held.exclusive else formats.format_percent(held.cores),
        since=hold.since,
        never=hold.used_at is None,
    )


def _slice_line(line: SliceLine) -> SliceUseLine:
    return SliceUseLine(
        **_owner(line.slice),
        cores=line.slice.cores,
        cores_used=line.cores_used,
        memory_mib=line.slice.memory_mib,
        memory_used=line.memory_used_mib,
        over=[str(_OVER[kind]) for kind in line.over],
    )


def _stray_line(stray: StrayProcess) -> StrayLine:
    row = stray.process
    return StrayLine(
        key=row.pk,
        **_gpu(stray.device),
        name=row.name,
        pid=row.pid,
        pod=row.pod_uid,
        utilization=stray.utilization_percent,
        memory=stray.memory_used_mib,
        first=from_ms(row.first_seen_ms),
        last=from_ms(row.last_seen_ms),
    )
