"""The list of nodes, filtered, sorted and paged by the address."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Node
from clusters.selectors.grid import node_state
from clusters.selectors.node_table import STATES, NodeQuery, flavor_list, node_state_counts, node_table
from frontend.components import view_models
from frontend.components.capacity import Meter
from frontend.pages.operations import labels
from frontend.pages.operations.cluster_scope import ClusterScope, ops_frame, remove_null_characters, scope_of
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.texts.labels import state_word
from scheduling.selectors.holding import pods_by_node
from telemetry.series import CardNow, utilisation_now

PER_PAGE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One line of the list. Percentages are of what the node has; None where nothing is known."""

    node: Any  # a Node with the sums of `node_table`
    url: str
    state: str
    mode: str
    place: str
    taints: Sequence[str]
    cores_allocated: float | None
    utilisation: float | None
    memory: Meter
    memory_used: float | None
    cpu: float | None
    memory_share: float | None
    pods: int


@require_GET
@operator_required
def show_nodes(request: HttpRequest) -> HttpResponse:
    """The page with its filters."""
    scope = scope_of(request)
    query = node_query(request, scope)
    who = get_viewer(request)
    ops_frame(request, scope)
    counts = node_state_counts(viewer=who, query=query)
    chips = [view_models.Chip(label=_("All"), count=sum(counts.values()))]
    chips += [
        view_models.Chip(label=str(state_word("node", state).text), value=state, count=count)
        for state, count in counts.items()
    ]
    flavors = dict.fromkeys(flavor.name for flavor in flavor_list(viewer=who, cluster=scope.cluster_name))
    found = _context(request, scope, query)
    return render(
        request,
        "frontend/operations/nodes.html",
        {**found, "chips": chips, "flavors": list(flavors), "query": query},
    )


@require_GET
@operator_required
def nodes_live(request: HttpRequest) -> HttpResponse:
    """The table alone, with fresh numbers."""
    scope = scope_of(request)
    found = _context(request, scope, node_query(request, scope))
    return render(request, "frontend/operations/nodes_live.html", found)


def node_query(request: HttpRequest, scope: ClusterScope) -> NodeQuery:
    """Return the query that the address asks for; a state that does not exist asks for all."""
    state = request.GET.get("state", "")
    return NodeQuery(
        cluster=scope.cluster_name,
        flavor=remove_null_characters(request.GET.get("flavor", "")),
        state=state if state in STATES else "",
        name=remove_null_characters(request.GET.get("name", "")).strip(),
        sort=request.GET.get("sort", ""),
    )


def _context(request: HttpRequest, scope: ClusterScope, query: NodeQuery) -> dict[str, Any]:
    who = get_viewer(request)
    # A page that does not exist any more, because nodes left, shows the last one.
    page = Paginator(node_table(viewer=who, query=query), PER_PAGE).get_page(request.GET.get("page"))
    shown = {node.pk for node in page}
    pods = pods_by_node(viewer=who, node_ids=shown)
    now = _now_by_node(who, page, scope)
    text = request.GET.urlencode()
    return {
        "page": page,
        "stale_clusters": scope.stale_clusters,
        "rows": [_row(node, scope, now.get(node.pk, ()), pods.get(node.pk, 0)) for node in page],
        "narrowed": bool(query.flavor or query.state or query.name),
        "all_url": reverse("frontend:ops-nodes"),
        "many_clusters": len(scope.clusters) > 1 and scope.cluster is None,
        "live_url": reverse("frontend:ops-nodes-live") + (f"?{text}" if text else ""),
    }


def _now_by_node(who: Any, page: Page[Node], scope: ClusterScope) -> dict[uuid.UUID, list[CardNow]]:
    """The latest readings of the cards of the nodes on the page."""
    owners = _card_owners(page)
    found: dict[uuid.UUID, list[CardNow]] = {}
    for device_id, reading in utilisation_now(who, cluster_id=scope.cluster_id).items():
        if device_id in owners:
            found.setdefault(owners[device_id], []).append(reading)
    return found


def _card_owners(page: Page[Node]) -> Mapping[uuid.UUID, uuid.UUID]:
    return {card.pk: node.pk for node in page for card in node.devices.all()}


def _row(node: Any, scope: ClusterScope, now: Sequence[CardNow], pods: int) -> NodeRow:
    used = sum(reading.utilisation_percent for reading in now) / len(now) if now else None
    memory_used = sum(reading.memory_used_mib for reading in now) if now else None
    return NodeRow(
        node=node,
        url=scope.node_url(node.name, node.cluster.name),
        state=node_state(node.ready, node.cordoned, node.closed),
        mode=labels.mode_word(node.flavor.gpu_mode) if node.flavor else "",
        place=" · ".join(part for part in (node.zone, node.rack) if part),
        taints=[taint_text(taint) for taint in node.taints],
        cores_allocated=labels.compute_percent(node.cores_granted_sum, 100 * node.cards),
        utilisation=used,
        memory=Meter(
            nominal=node.memory_capacity_sum / 1024,
            allocated=node.memory_granted_sum / 1024,
            used=None if memory_used is None else min(memory_used, node.memory_granted_sum) / 1024,
            unit="GiB",
        ),
        memory_used=memory_used,
        cpu=labels.compute_percent(node.cpu_granted + node.cpu_foreign, node.cpu_millicores),
        memory_share=labels.compute_percent(node.memory_granted + node.memory_foreign, node.memory_mib),
        pods=pods,
    )


def taint_text(taint: Mapping[str, str]) -> str:
    """A taint as kubectl writes it: `key=value:effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
