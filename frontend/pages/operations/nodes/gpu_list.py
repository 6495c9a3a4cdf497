"""The list of GPUs, filtered, sorted and paged by the address."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_GET

from clusters.models import Device
from clusters.selectors.gpu_table import (
    COLUMNS,
    GPU_STATES,
    GpuQuery,
    gpu_models,
    gpu_state_counts,
    gpu_table,
    gpus_by_keys,
)
from clusters.selectors.node_table import flavor_list
from frontend.components import view_models
from frontend.components.capacity import Meter
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import PageList, answer_list, cut_by_keys, read_list
from frontend.pages.operations import labels
from frontend.pages.operations.cluster_scope import ClusterScope, ops_frame, scope_of
from frontend.pages.operations.nodes.gpu_facts import ReportedFacts, read_gpu_facts
from frontend.shell import navigation
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.texts.labels import GPU_MODES, state_word
from scheduling.selectors.allocations.holding import LiveSlice, slices_by_device
from telemetry.series import GpuNow, measures_now
from tenants.models import User


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One line of the list; values without a reading in the last 30 s are None."""

    device: Device
    url: str
    node_url: str
    state: str
    mode: str
    allocated: float | None
    utilisation: float | None
    memory: Meter
    memory_used: float | None
    temperature: float | None
    power: float | None
    power_limit: float | None
    holders: Sequence[LiveSlice]
    xids: int | None

    @property
    def tenants(self) -> list[str]:
        """The workspaces whose jobs hold a part of the GPU."""
        return list(dict.fromkeys(part.workspace for part in self.holders))

    @property
    def jobs(self) -> list[str]:
        """The jobs that hold a part of the GPU."""
        return list(dict.fromkeys(part.job for part in self.holders))

    @property
    def id(self) -> uuid.UUID:
        return self.device.pk


GPUS: Final = ListDeclaration(
    key="gpus",
    title=pgettext_lazy("page", "GPUs"),
    columns=(
        ListColumn(
            key="gpu",
            label=gettext_lazy("GPU"),
            sort="node",
            text=lambda row: f"{row.device.node.name} GPU {row.device.index}",
        ),
        ListColumn(key="uuid", label="UUID", shown=False, text=lambda row: row.device.uuid),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            shown=False,
            text=lambda row: row.device.node.cluster.name,
        ),
        ListColumn(
            key="vendor", label=gettext_lazy("Vendor"), shown=False, text=lambda row: row.device.vendor
        ),
        ListColumn(key="model", label=gettext_lazy("Model"), sort="model", text=lambda row: row.device.model),
        ListColumn(
            key="pool",
            label=gettext_lazy("Pool"),
            sort="pool",
            text=lambda row: row.device.node.flavor.name if row.device.node.flavor else "",
        ),
        ListColumn(
            key="mode",
            label=gettext_lazy("Allocation mode"),
            shown=False,
            text=lambda row: row.mode,
        ),
        ListColumn(
            key="state",
            label=gettext_lazy("State"),
            text=lambda row: state_word("device", row.state).text,
        ),
        ListColumn(
            key="allocated",
            label=gettext_lazy("Allocated"),
            file_label=gettext_lazy("Allocated (%)"),
            number=True,
            sort="allocated",
            text=lambda row: row.allocated,
        ),
        ListColumn(key="tenants", label=gettext_lazy("Tenants"), text=lambda row: ", ".join(row.tenants)),
        ListColumn(key="jobs", label=gettext_lazy("Jobs"), shown=False, text=lambda row: ", ".join(row.jobs)),
        ListColumn(
            key="holders",
            label=gettext_lazy("Pods"),
            number=True,
            shown=False,
            text=lambda row: row.device.holders,
        ),
        ListColumn(
            key="used",
            label=gettext_lazy("Utilization"),
            file_label=gettext_lazy("Utilization (%)"),
            number=True,
            text=lambda row: row.utilisation,
        ),
        ListColumn(
            key="memory",
            label=gettext_lazy("GPU memory"),
            file_label=gettext_lazy("GPU memory, used (MiB)"),
            sort="memory",
            text=lambda row: row.memory_used,
        ),
        ListColumn(
            key="temperature",
            label=gettext_lazy("Temperature"),
            file_label=gettext_lazy("Temperature (°C)"),
            number=True,
            text=lambda row: row.temperature,
        ),
        ListColumn(
            key="power",
            label=gettext_lazy("Power"),
            file_label=gettext_lazy("Power (W)"),
            number=True,
            text=lambda row: row.power,
        ),
        ListColumn(
            key="xids",
            label=gettext_lazy("XID errors in 24 h"),
            number=True,
            shown=False,
            text=lambda row: row.xids,
        ),
    ),
    filters={
        "node": FilterField(label=gettext_lazy("Node")),
        "model": FilterField(label=gettext_lazy("Model")),
        "flavor": FilterField(label=gettext_lazy("Pool")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "uuid": FilterField(label="UUID"),
        "mode": FilterField(
            label=gettext_lazy("Allocation mode"),
            choices=[(mode, word) for mode, word in GPU_MODES.items() if mode != "none"],
        ),
        "healthy": FilterField(label=gettext_lazy("Healthy")),
        "cores_granted": FilterField(label=gettext_lazy("Allocated, percent")),
        "holders": FilterField(label=gettext_lazy("Pods")),
    },
    fields=COLUMNS,
    parameters=("state", "pool", "model", "node", "uuid"),
    default_sort="node",
    size=50,
)


@require_GET
@operator_required
def show_gpus(request: HttpRequest) -> HttpResponse:
    """Show the page, its rows alone, or the matching GPUs as a file."""
    scope, who = scope_of(request), get_viewer(request)
    ops_frame(request, scope)
    shown = read_list(request, GPUS, {"state": GPU_STATES})
    query = _query(shown, scope)
    counts = cache(partial(gpu_state_counts, viewer=who, query=query))
    return answer_list(
        request,
        shown,
        gpu_table(viewer=who, query=query),
        partial(_rows, who, scope, shown),
        template="frontend/operations/gpus.html",
        body="frontend/operations/gpus_live.html",
        context=lambda: _context(who, scope, query, counts()),
        cut=cut_by_keys(
            lambda keys: gpus_by_keys(viewer=who, keys=keys),
            lambda: counts()[query.state] if query.state in counts() else sum(counts().values()),
        ),
    )


def _query(shown: PageList, scope: ClusterScope) -> GpuQuery:
    asked = shown.query
    return GpuQuery(
        cluster=scope.cluster_name,
        pool=asked.get("pool", "").strip(),
        model=asked.get("model", "").strip(),
        node=asked.get("node", "").strip(),
        state=asked.get("state", ""),
        text=asked.get("uuid", "").strip(),
        sort=shown.sort,
        conditions=shown.conditions,
    )


def _context(who: User, scope: ClusterScope, query: GpuQuery, counts: Mapping[str, int]) -> dict[str, Any]:
    words = {
        "free": _("Free"),
        "partial": _("Partly allocated"),
        "allocated": _("Allocated"),
        "unhealthy": _("Unhealthy"),
    }
    chips = [view_models.Chip(label=_("All"), count=sum(counts.values()))]
    chips += [view_models.Chip(label=words[key], value=key, count=counts[key]) for key in GPU_STATES]
    pools = dict.fromkeys(flavor.name for flavor in flavor_list(viewer=who, cluster=scope.cluster_name))
    return {
        "chips": chips,
        "pools": list(pools),
        "models": gpu_models(viewer=who, cluster=scope.cluster_name),
        "query": query,
        "many_clusters": len(scope.clusters) > 1 and scope.cluster is None,
    }


def _rows(who: User, scope: ClusterScope, shown: PageList, devices: Sequence[Device]) -> list[GpuRow]:
    ids = [device.pk for device in devices]
    now = measures_now(who, ids)
    held = slices_by_device(viewer=who, devices=ids) if shown.needs_columns("tenants", "jobs") else {}
    asked = shown.needs_columns("xids")
    facts = read_gpu_facts(who, [device.node_id for device in devices]) if asked else ReportedFacts()
    return [_row(device, scope, now, held.get(device.pk, ()), facts) for device in devices]


def _row(
    device: Device,
    scope: ClusterScope,
    now: Mapping[uuid.UUID, GpuNow],
    holders: Sequence[LiveSlice],
    facts: ReportedFacts,
) -> GpuRow:
    values = now[device.pk].values if device.pk in now else {}
    used = values.get("memory_used_mib")
    return GpuRow(
        device=device,
        url=navigation.find_address("frontend:ops-gpu", uuid=device.uuid),
        node_url=scope.node_url(device.node.name, device.node.cluster.name),
        state="healthy" if device.healthy else "unhealthy",
        mode=labels.mode_word(device.mode),
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
        holders=holders,
        xids=facts.count_on_gpu(device),
    )
