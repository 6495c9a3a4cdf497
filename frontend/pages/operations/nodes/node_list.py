"""The list of nodes, filtered, sorted and paged by the address."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from clusters.models import Node
from clusters.selectors.node import get_open_cordon
from clusters.selectors.node_table import (
    COLUMNS,
    STATES,
    SUMS,
    NodeQuery,
    card_nodes,
    flavor_list,
    node_order,
    node_state_counts,
    node_table,
    nodes_by_keys,
)
from frontend.components import view_models
from frontend.components.capacity import Meter
from frontend.lists.batch import answer_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import PageList, answer_list, cut_by_keys, read_list
from frontend.pages.nodes import node_acts
from frontend.pages.nodes.cordon_words import cordon_note
from frontend.pages.operations import labels
from frontend.pages.operations.cluster_scope import ClusterScope, ops_frame, scope_of
from frontend.pages.operations.nodes.gpu_facts import ReportedFacts, read_gpu_facts
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.texts.labels import state_word
from scheduling.selectors.allocations.holding import pods_by_node
from telemetry.series import CardNow, utilisation_now
from tenants.models import User


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One line of the list. Percentages refer to what the node has; None where the value is unknown."""

    node: Any  # a Node with the sums of `node_table`
    url: str
    state: str
    note: str
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
    driver: str
    cuda: str
    xids: int | None

    @property
    def id(self) -> uuid.UUID:
        found: uuid.UUID = self.node.pk
        return found


def _pool(row: NodeRow) -> str:
    return row.node.flavor.name if row.node.flavor else ""


NODES: Final = ListDeclaration(
    key="nodes",
    title=gettext_lazy("Nodes"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Node"), sort="name", text=lambda row: row.node.name),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            shown=False,
            text=lambda row: row.node.cluster.name,
        ),
        ListColumn(
            key="state",
            label=gettext_lazy("State"),
            text=lambda row: state_word("node", row.state).text,
        ),
        ListColumn(key="flavor", label=gettext_lazy("Pool"), sort="flavor", text=_pool),
        ListColumn(key="gpus", label=gettext_lazy("GPUs"), sort="cards", text=lambda row: row.node.cards),
        ListColumn(
            key="free",
            label=gettext_lazy("Free GPUs"),
            number=True,
            sort="free",
            text=lambda row: row.node.free_cards,
        ),
        ListColumn(
            key="unhealthy",
            label=gettext_lazy("Unhealthy GPUs"),
            number=True,
            shown=False,
            text=lambda row: row.node.unhealthy_cards,
        ),
        ListColumn(
            key="fraction",
            label=gettext_lazy("Largest free"),
            file_label=gettext_lazy("Largest free (%)"),
            number=True,
            sort="fraction",
            text=lambda row: row.node.largest_left,
        ),
        ListColumn(
            key="allocated",
            label=gettext_lazy("Allocated"),
            file_label=gettext_lazy("Allocated (%)"),
            number=True,
            sort="allocated",
            text=lambda row: row.cores_allocated,
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
            file_label=gettext_lazy("Allocated GPU memory (GiB)"),
            sort="memory",
            text=lambda row: row.memory.allocated,
        ),
        ListColumn(
            key="memory_total",
            label=gettext_lazy("GPU memory, total"),
            file_label=gettext_lazy("GPU memory, total (GiB)"),
            number=True,
            shown=False,
            text=lambda row: row.memory.nominal,
        ),
        ListColumn(
            key="memory_used",
            label=gettext_lazy("GPU memory, used"),
            file_label=gettext_lazy("GPU memory, used (GiB)"),
            number=True,
            shown=False,
            text=lambda row: row.memory_used,
        ),
        ListColumn(
            key="cpu",
            label=gettext_lazy("CPU, memory"),
            file_label=gettext_lazy("Allocated CPU (%)"),
            number=True,
            sort="cpu",
            text=lambda row: row.cpu,
        ),
        ListColumn(
            key="memory_share",
            label=gettext_lazy("Allocated memory"),
            file_label=gettext_lazy("Allocated memory (%)"),
            number=True,
            shown=False,
            text=lambda row: row.memory_share,
        ),
        ListColumn(
            key="pods", label=gettext_lazy("Pods"), number=True, shown=False, text=lambda row: row.pods
        ),
        ListColumn(key="driver", label=gettext_lazy("Driver"), shown=False, text=lambda row: row.driver),
        ListColumn(key="cuda", label="CUDA", shown=False, text=lambda row: row.cuda),
        ListColumn(
            key="xids",
            label=gettext_lazy("XID errors in 24 h"),
            number=True,
            shown=False,
            text=lambda row: row.xids,
        ),
        ListColumn(
            key="rack", label=gettext_lazy("Rack"), sort="rack", shown=False, text=lambda row: row.node.rack
        ),
        ListColumn(key="zone", label=gettext_lazy("Zone"), shown=False, text=lambda row: row.node.zone),
        ListColumn(
            key="taints",
            label=gettext_lazy("Taints"),
            shown=False,
            text=lambda row: ", ".join(row.taints),
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Node")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "flavor": FilterField(label=gettext_lazy("Pool")),
        "ready": FilterField(label=gettext_lazy("Ready")),
        "cordoned": FilterField(label=gettext_lazy("Cordoned")),
        "rack": FilterField(label=gettext_lazy("Rack")),
        "zone": FilterField(label=gettext_lazy("Zone")),
        "cards": FilterField(label=gettext_lazy("GPUs")),
        "free_cards": FilterField(label=gettext_lazy("Free GPUs")),
        "unhealthy_cards": FilterField(label=gettext_lazy("Unhealthy GPUs")),
        "largest_left": FilterField(label=gettext_lazy("Largest free fraction (%)")),
        "allocated_percent": FilterField(label=gettext_lazy("Allocated (%)")),
        "cpu_granted": FilterField(label=gettext_lazy("Allocated CPU (millicores)")),
        "memory_granted": FilterField(label=gettext_lazy("Allocated memory (MiB)")),
    },
    fields={**COLUMNS, **SUMS},
    parameters=("state", "flavor", "name"),
    default_sort="name",
    size=50,
)


@require_http_methods(["GET", "HEAD", "POST"])
@operator_required
def show_nodes(request: HttpRequest) -> HttpResponse:
    """Show the page, its rows alone, or the matching nodes as a file; POST acts on some of them."""
    scope, who = scope_of(request), get_viewer(request)
    ops_frame(request, scope)
    acts = node_acts.batch_acts(who)
    if request.method == "POST":
        return answer_batch(
            request, acts=acts, find=partial(node_acts.find_items, who), back=request.get_full_path()
        )
    shown = read_list(request, NODES, {"state": STATES})
    query = _query(shown, scope)
    counts = cache(partial(node_state_counts, viewer=who, query=query))
    return answer_list(
        request,
        shown,
        node_table(viewer=who, query=query),
        partial(_rows, who, scope, shown),
        template="frontend/operations/nodes.html",
        body="frontend/operations/nodes_live.html",
        context=lambda: {
            **_context(who, scope, query, counts()),
            "acts": acts,
            "batch_url": request.path,
        },
        cut=cut_by_keys(
            lambda keys: nodes_by_keys(viewer=who, keys=keys),
            lambda: counts()[query.state] if query.state else sum(counts().values()),
            keys=node_order(viewer=who, query=query),
        ),
    )


def _query(shown: PageList, scope: ClusterScope) -> NodeQuery:
    """Return the query of the address; an unknown state selects all nodes."""
    state = shown.query.get("state", "")
    return NodeQuery(
        cluster=scope.cluster_name,
        flavor=shown.query.get("flavor", ""),
        state=state if state in STATES else "",
        name=shown.query.get("name", "").strip(),
        sort=shown.sort,
        conditions=shown.conditions,
    )


def _context(who: User, scope: ClusterScope, query: NodeQuery, counts: Mapping[str, int]) -> dict[str, Any]:
    chips = [view_models.Chip(label=_("All"), count=sum(counts.values()))]
    chips += [
        view_models.Chip(label=str(state_word("node", state).text), value=state, count=count)
        for state, count in counts.items()
    ]
    flavors = dict.fromkeys(flavor.name for flavor in flavor_list(viewer=who, cluster=scope.cluster_name))
    return {
        "chips": chips,
        "flavors": list(flavors),
        "query": query,
        "many_clusters": len(scope.clusters) > 1 and scope.cluster is None,
    }


def _rows(who: User, scope: ClusterScope, shown: PageList, nodes: Sequence[Node]) -> list[NodeRow]:
    pods = pods_by_node(viewer=who, node_ids={node.pk for node in nodes})
    now = _now_by_node(who, nodes)
    asked = shown.needs_columns("driver", "cuda", "xids")
    facts = read_gpu_facts(who, [node.pk for node in nodes]) if asked else ReportedFacts()
    return [_row(node, scope, now.get(node.pk, ()), pods.get(node.pk, 0), facts) for node in nodes]


def _now_by_node(who: User, nodes: Sequence[Node]) -> dict[uuid.UUID, list[CardNow]]:
    """Return the latest readings of the nodes' GPUs."""
    shown = [node.pk for node in nodes]
    owners = card_nodes(viewer=who, node_ids=shown)
    found: dict[uuid.UUID, list[CardNow]] = {}
    for device_id, reading in utilisation_now(who, node_ids=shown).items():
        if device_id in owners:
            found.setdefault(owners[device_id], []).append(reading)
    return found


def _row(node: Any, scope: ClusterScope, now: Sequence[CardNow], pods: int, facts: ReportedFacts) -> NodeRow:
    used = sum(reading.utilisation_percent for reading in now) / len(now) if now else None
    memory_used = sum(reading.memory_used_mib for reading in now) if now else None
    driver, cuda = facts.find_versions(node)
    return NodeRow(
        node=node,
        url=scope.node_url(node.name, node.cluster.name),
        state=node_acts.describe_node_state(node),
        note=cordon_note(get_open_cordon(node)),
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
        memory_used=None if memory_used is None else memory_used / 1024,
        cpu=labels.compute_percent(node.cpu_granted + node.cpu_foreign, node.cpu_millicores),
        memory_share=labels.compute_percent(node.memory_granted + node.memory_foreign, node.memory_mib),
        pods=pods,
        driver=driver,
        cuda=cuda,
        xids=facts.count_on_node(node),
    )


def taint_text(taint: Mapping[str, str]) -> str:
    """Return a taint as kubectl writes it: `key=value:effect`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"
