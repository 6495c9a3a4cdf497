"""The list of GPUs, filtered, sorted and paged by the address."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Device
from clusters.selectors.gpu_table import GPU_STATES, GpuQuery, gpu_models, gpu_state_counts, gpu_table
from clusters.selectors.node_table import flavor_list
from frontend.components import view_models
from frontend.components.capacity import Meter
from frontend.pages.operations import labels
from frontend.pages.operations.cluster_scope import ClusterScope, ops_frame, remove_null_characters, scope_of
from frontend.shell import navigation
from frontend.shell.page_shell import get_viewer, operator_required
from telemetry.series import GpuNow, measures_now

PER_PAGE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One line of the list; what was not measured in the last 30 s is None."""

    device: Device
    url: str
    node_url: str
    state: str
    allocated: float | None
    utilisation: float | None
    memory: Meter
    memory_used: float | None
    temperature: float | None
    power: float | None
    power_limit: float | None


@require_GET
@operator_required
def show_gpus(request: HttpRequest) -> HttpResponse:
    """The page with its filters."""
    scope, who = scope_of(request), get_viewer(request)
    query = _query(request, scope)
    ops_frame(request, scope)
    counts = gpu_state_counts(viewer=who, query=query)
    words = {
        "free": _("Free"),
        "partial": _("Partly allocated"),
        "allocated": _("Allocated"),
        "unhealthy": _("Unhealthy"),
    }
    chips = [view_models.Chip(label=_("All"), count=sum(counts.values()))]
    chips += [view_models.Chip(label=words[key], value=key, count=counts[key]) for key in GPU_STATES]
    pools = dict.fromkeys(flavor.name for flavor in flavor_list(viewer=who, cluster=scope.cluster_name))
    page = {
        **_context(request, scope, query),
        "chips": chips,
        "pools": list(pools),
        "models": gpu_models(viewer=who, cluster=scope.cluster_name),
        "query": query,
    }
    return render(request, "frontend/operations/gpus.html", page)


@require_GET
@operator_required
def gpus_live(request: HttpRequest) -> HttpResponse:
    """The table alone, with fresh numbers."""
    scope = scope_of(request)
    found = _context(request, scope, _query(request, scope))
    return render(request, "frontend/operations/gpus_live.html", found)


def _query(request: HttpRequest, scope: ClusterScope) -> GpuQuery:
    def read_parameter(name: str) -> str:
        return remove_null_characters(request.GET.get(name, "")).strip()

    return GpuQuery(
        cluster=scope.cluster_name,
        pool=read_parameter("pool"),
        model=read_parameter("model"),
        node=read_parameter("node"),
        state=read_parameter("state"),
        text=read_parameter("uuid"),
        sort=request.GET.get("sort", ""),
    )


def _context(request: HttpRequest, scope: ClusterScope, query: GpuQuery) -> dict[str, Any]:
    who = get_viewer(request)
    page = Paginator(gpu_table(viewer=who, query=query), PER_PAGE).get_page(request.GET.get("page"))
    now = measures_now(who, [device.pk for device in page])
    text = request.GET.urlencode()
    return {
        "page": page,
        "rows": [_row(device, scope, now) for device in page],
        "stale_clusters": scope.stale_clusters,
        "narrowed": any((query.pool, query.model, query.node, query.state, query.text)),
        "all_url": reverse("frontend:ops-gpus"),
        "many_clusters": len(scope.clusters) > 1 and scope.cluster is None,
        "live_url": reverse("frontend:ops-gpus-live") + (f"?{text}" if text else ""),
    }


def _row(device: Device, scope: ClusterScope, now: Mapping[uuid.UUID, GpuNow]) -> GpuRow:
    values = now[device.pk].values if device.pk in now else {}
    used = values.get("memory_used_mib")
    return GpuRow(
        device=device,
        url=navigation.find_address("frontend:ops-gpu", uuid=device.uuid),
        node_url=scope.node_url(device.node.name, device.node.cluster.name),
        state="healthy" if device.healthy else "unhealthy",
        allocated=labels.compute_percent(device.cores_granted, device.cores_capacity),
        utilisation=values.get("utilization_percent"),
        memory=Meter(
            nominal=device.memory_capacity / 1024,
            allocated=device.memory_granted / 1024,
            used=None if used is None else min(used, device.memory_granted) / 1024,
            foreign=device.memory_foreign / 1024,
            unit="GiB",
        ),
        memory_used=used,
        temperature=values.get("temperature_c"),
        power=values.get("power_w"),
        power_limit=values.get("power_limit_w"),
    )
