"""GPUs by holder: a color for each of the tenants that hold most, and the amounts as numbers."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from clusters.selectors.grid import GridNode
from frontend.texts import formats
from scheduling.selectors.allocations.holding import LiveSlice
from telemetry.series import CardNow

BY_TENANT: Final = "tenants"
ROWS_MAX: Final = 100
_COLORS: Final = 8
_OTHER: Final = "tenant-other"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTenantRow:
    """The GPUs of one workspace: whole ones and slices, and both as a number of GPUs; `color` is a class."""

    name: str
    color: str
    whole: int
    slices: int
    gpus: str
    utilization: float | None


@dataclass(frozen=True, slots=True)
class GpuTenants:
    """The holders of GPUs, most first, and the color of each.

    Where there are more than `ROWS_MAX`, the last row sums up the others.
    """

    rows: Sequence[GpuTenantRow]
    colors: Mapping[uuid.UUID, str]


def is_by_tenant(request: HttpRequest) -> bool:
    """Return whether the address asks for GPUs in the colors of their tenants."""
    return request.GET.get("gpus") == BY_TENANT


def describe_gpu_tenants(
    nodes: Sequence[GridNode], now: Mapping[uuid.UUID, CardNow], slices: Sequence[LiveSlice]
) -> GpuTenants:
    """Sum what is held of these nodes by workspace."""
    cards = {card.id for node in nodes for card in node.cards}
    parts: defaultdict[uuid.UUID, list[LiveSlice]] = defaultdict(list)
    for part in slices:
        if part.device_id in cards:
            parts[part.workspace_id].append(part)
    cores = {pk: sum(part.cores for part in held) for pk, held in parts.items()}
    ordered = sorted(cores, key=lambda pk: (-cores[pk], parts[pk][0].workspace))
    colors = {pk: f"tenant-{place + 1}" if place < _COLORS else _OTHER for place, pk in enumerate(ordered)}
    shown = ordered if len(ordered) <= ROWS_MAX else ordered[: ROWS_MAX - 1]
    rows = [_row(parts[pk][0].workspace, colors[pk], parts[pk], now) for pk in shown]
    if others := ordered[len(shown) :]:
        rest = [part for pk in others for part in parts[pk]]
        rows.append(_row(_("%(n)s others") % {"n": len(others)}, _OTHER, rest, now))
    return GpuTenants(rows, colors)


def _row(name: str, color: str, held: Sequence[LiveSlice], now: Mapping[uuid.UUID, CardNow]) -> GpuTenantRow:
    return GpuTenantRow(
        name=name,
        color=color,
        whole=sum(part.exclusive for part in held),
        slices=sum(not part.exclusive for part in held),
        gpus=formats.format_gpus(sum(part.cores for part in held)),
        utilization=_utilization(held, now),
    )


def _utilization(held: Sequence[LiveSlice], now: Mapping[uuid.UUID, CardNow]) -> float | None:
    """Return the mean utilization of the measured whole GPUs; the use of a single slice is not known."""
    known = [
        now[part.device_id].utilisation_percent for part in held if part.exclusive and part.device_id in now
    ]
    return sum(known) / len(known) if known else None
