"""The page of one GPU: facts, holders, processes, measurements and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET

from clusters.gpu.measures import MEASURES, Level
from clusters.models import Device
from clusters.selectors.node import device_get
from foundation.core import clock
from frontend.components import view_models
from frontend.pages.charts.responses import chart_answer, charts_context
from frontend.pages.operations.cluster_scope import build_address, ops_frame, scope_of
from frontend.pages.operations.nodes.gpu_events import gpu_event_rows
from frontend.pages.operations.nodes.gpu_facts import ReportedFacts, read_gpu_facts
from frontend.pages.operations.nodes.node_cards import CardView, card_views
from frontend.pages.operations.overview.overview import DEFAULT_RANGE
from frontend.pages.operations.overview.summary import job_url
from frontend.shell import navigation
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.shell.time_range import read_time_range
from frontend.texts import formats
from frontend.texts.clock_reasons import describe_clock_reasons
from frontend.texts.gpu_measures import format_measure
from frontend.texts.labels import GPU_MODES
from scheduling.selectors.allocations.holder import DeviceHold, device_holds
from telemetry.models import NodeAgent
from telemetry.series import measures_now, slices_now, utilisation_now
from telemetry.series.readings.agents import gpu_processes, node_agents
from telemetry.store.times import from_ms, to_ms
from tenants.models import User

_EVENTS: Final = 50
_PROCESSES: Final = 100
_PROCESSES_WITHIN: Final = timedelta(minutes=10)
_DEVICE_MEASURES: Final = [measure for measure in MEASURES if Level.DEVICE in measure.levels]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLine:
    """The part of the GPU that one task holds, and its use; None is not measured."""

    job: str
    url: str
    workspace: str
    cores: int
    memory_mib: int
    cores_used: float | None
    memory_used: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLine:
    """A process seen on the GPU; `job` is empty if no live allocation is known for it."""

    pid: int
    name: str
    job: str
    url: str
    allocated: bool
    first: datetime
    last: datetime


@require_GET
@operator_required
def show_gpu(request: HttpRequest, uuid: str) -> HttpResponse:
    """Show the whole page."""
    found = device_get(viewer=get_viewer(request), uuid=uuid)
    ops_frame(request, scope_of(request), path=reverse("frontend:ops-gpus"), shown=found.node.cluster)
    node = navigation.find_address("frontend:ops-node", name=found.node.name)
    crumbs = [
        view_models.Crumb(label=pgettext("page", "GPUs"), url=reverse("frontend:ops-gpus")),
        view_models.Crumb(
            label=found.node.name, url=build_address(node, {"cluster": found.node.cluster.name})
        ),
    ]
    return render(request, "frontend/operations/gpu.html", {**_context(request, found), "crumbs": crumbs})


@require_GET
@operator_required
def gpu_live(request: HttpRequest, uuid: str) -> HttpResponse:
    """Show everything but the head, with fresh numbers."""
    found = device_get(viewer=get_viewer(request), uuid=uuid)
    return render(request, "frontend/operations/gpu_live.html", _context(request, found))


@require_GET
@operator_required
def gpu_chart(request: HttpRequest, uuid: str, kind: str) -> HttpResponse:
    """Return one chart of the GPU as data."""
    found = device_get(viewer=get_viewer(request), uuid=uuid)
    return chart_answer(get_viewer(request), "gpu", found.pk, kind, read_time_range(request, DEFAULT_RANGE))


def _context(request: HttpRequest, found: Device) -> dict[str, Any]:
    who, own = get_viewer(request), {"uuid": found.uuid}
    chosen = read_time_range(request, DEFAULT_RANGE)
    holds = device_holds(viewer=who, devices=[found]).get(found.pk, [])
    agent = node_agents(who).filter(node=found.node_id).first()
    facts = _agent_facts(agent, found.gpu_uuid)
    unsupported = set(agent.unsupported.get(found.gpu_uuid, ())) if agent else set()
    now = measures_now(who, [found.pk]).get(found.pk)
    card: CardView
    (card,) = card_views([found], {found.pk: holds}, utilisation_now(who, node_ids=[found.node_id]))
    return {
        **charts_context("gpu", "frontend:ops-gpu-chart", own, {}, chosen),
        "live_url": build_address(reverse("frontend:ops-gpu-live", kwargs=own), chosen.query),
        "gpu": found,
        "state": card.state,
        "facts": _facts(found, read_gpu_facts(who, [found.node_id]), facts),
        "card": card,
        "at": now.at if now else None,
        "measures": _measures(now.values if now else {}, unsupported),
        "holds": _holds(holds, slices_now(who, found.pk)),
        "processes": _processes(who, found, holds),
        "events": gpu_event_rows(
            who, node_id=found.node_id, device_uuid=found.gpu_uuid, most=_EVENTS, names={}
        ),
        "links": _links(found, facts),
        "instances": [one for one in (agent.devices if agent else ()) if one.get("parent") == found.gpu_uuid],
    }


def _agent_facts(agent: NodeAgent | None, uuid: str) -> dict[str, Any]:
    """Return the facts that the node's agent reported about the GPU; empty without any."""
    return next((one for one in (agent.devices if agent else ()) if one.get("uuid") == uuid), {})


def _facts(found: Device, known: ReportedFacts, reported: dict[str, Any]) -> list[tuple[str, object]]:
    missing = formats.MISSING
    numa = reported.get("numa_node")
    driver, cuda = known.find_versions(found.node)
    return [
        ("UUID", found.gpu_uuid),
        (_("Vendor"), found.vendor),
        (_("Model"), found.model),
        (_("Pool"), found.node.flavor.name if found.node.flavor else missing),
        (_("Allocation mode"), str(GPU_MODES[found.mode])),
        (_("GPU memory"), formats.format_memory(found.memory_mib)),
        (_("Serial number"), reported.get("serial") or missing),
        (_("PCI address"), reported.get("pci_bus_id") or missing),
        (_("NUMA node"), missing if numa is None else str(numa)),
        (_("Driver"), driver or missing),
        ("CUDA", cuda or missing),
        (_("XID errors in 24 h"), formats.format_number(known.count_on_gpu(found))),
    ]


def _measures(values: dict[str, float], unsupported: set[str]) -> list[tuple[str, str]]:
    """Return every measure with its last value, or that the GPU does not support it."""
    found = []
    for measure in _DEVICE_MEASURES:
        if measure.name in values:
            text = _format(measure.name, values[measure.name], measure.unit)
        else:
            text = _("Not supported") if measure.name in unsupported else formats.MISSING
        found.append((format_measure(measure.name), text))
    return found


def _format(name: str, value: float, unit: str) -> str:
    if name == "throttle_reasons":
        return describe_clock_reasons(int(value))
    number = formats.format_number(value, 0 if value == int(value) else 1)
    return f"{number} {unit}".rstrip()


def _holds(holds: Sequence[DeviceHold], used: dict[Any, tuple[float | None, int | None]]) -> list[HoldLine]:
    lines = []
    for hold in holds:
        job = hold.allocation.attempt.job
        cores, memory = used.get(hold.allocation.pk, (None, None))
        lines.append(
            HoldLine(
                job=job.name,
                url=job_url(job.workspace.slug, job.pk),
                workspace=job.workspace.name,
                cores=hold.cores,
                memory_mib=hold.memory_mib,
                cores_used=cores,
                memory_used=memory,
            )
        )
    return lines


def _processes(who: User, found: Device, holds: Sequence[DeviceHold]) -> list[ProcessLine]:
    jobs = {hold.allocation.pk: hold.allocation.attempt.job for hold in holds}
    since = to_ms(clock.now() - _PROCESSES_WITHIN)
    rows = gpu_processes(who, node_id=found.node_id, since_ms=since).filter(device_id=found.pk)
    lines = []
    for row in rows[:_PROCESSES]:
        job = jobs.get(row.allocation_id) if row.allocation_id else None
        lines.append(
            ProcessLine(
                pid=row.pid,
                name=row.name,
                job=job.name if job else "",
                url=job_url(job.workspace.slug, job.pk) if job else "",
                allocated=row.allocation_id is not None,
                first=from_ms(row.first_seen_ms),
                last=from_ms(row.last_seen_ms),
            )
        )
    return lines


def _links(found: Device, reported: dict[str, Any]) -> list[tuple[str, str, str, int]]:
    """Return connections to other GPUs: name, address, kind and number of links."""
    others = {device.gpu_uuid: device for device in found.node.devices.all()} if reported.get("links") else {}
    lines = []
    for link in reported.get("links") or ():
        other = others.get(link["to"])
        name = f"GPU {other.index}" if other else link["to"]
        url = navigation.find_address("frontend:ops-gpu", uuid=other.uuid) if other else ""
        lines.append((name, url, link["kind"], link.get("count", 1)))
    return lines
