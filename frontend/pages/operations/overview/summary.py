"""The figures of the overview, read once per refresh."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from alerts.models import AlertState
from alerts.selectors.alerts import count_firing
from clusters.models import ForeignOrigin
from clusters.selectors.capacity import FlavorCapacity, capacity_now
from clusters.selectors.foreign import ForeignHolding, foreign_holdings
from clusters.selectors.grid import GridNode, Stranded, count_stranded, node_grid
from foundation.core import clock
from frontend.lists.conditions import PARAMETER
from frontend.pages.jobs.addresses import all_jobs_address
from frontend.pages.operations import labels
from frontend.pages.operations.cluster_scope import ClusterScope, build_address
from frontend.pages.operations.overview import gpu_tiles, tenants_table, work_charts
from frontend.pages.operations.overview.busiest import busiest_nodes
from frontend.pages.operations.overview.gpu_tenants import describe_gpu_tenants
from frontend.pages.operations.overview.use_histogram import use_histogram
from frontend.shell import navigation
from frontend.texts import formats, reasons
from frontend.texts.firing import describe_firing, tone_of_firing
from quotas.selectors.tenants.usage import tenant_usage
from scheduling.models import RUNNING_STATES
from scheduling.selectors.allocations.holding import LiveSlice, live_slices
from scheduling.selectors.jobs.row import count_holding
from scheduling.selectors.pending.waiting import Waiting, waiting_now
from telemetry.series import CardNow, IdleSlice, idle_allocated, jobs_now, utilisation_now
from tenants.models import Tenant, User

IDLE_AFTER_S: Final = 300
_IDLE_SHOWN: Final = 8
_NAMESPACES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number of the top row."""

    label: str
    value: str
    meaning: str
    tone: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonBar:
    """The number of jobs that are pending for one reason, and the list of them; `share` is the bar's length
    in percent of the longest.
    """

    title: str
    count: int
    share: float
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleJob:
    """A job that holds GPUs without using them."""

    key: uuid.UUID
    name: str
    url: str
    workspace: str
    cards: int


def overview_context(who: User, scope: ClusterScope, *, by_tenant: bool = False) -> dict[str, Any]:
    """Return everything below the page's head, in a fixed number of queries.

    `by_tenant`: GPUs have the colors of their tenants.
    """
    cluster_id = scope.cluster_id
    nodes = node_grid(viewer=who, cluster_id=cluster_id)
    cards = {card.id for node in nodes for card in node.cards}
    now = utilisation_now(who, cluster_id=cluster_id)
    slices = live_slices(viewer=who, cluster_id=cluster_id)
    waiting = waiting_now(viewer=who, cluster_id=cluster_id)
    idle = [part for part in idle_allocated(who, IDLE_AFTER_S).slices if part.device_id in cards]
    flavors = [
        row for row in capacity_now(viewer=who) if row.cards and cluster_id in (None, row.flavor.cluster_id)
    ]
    usages = tenant_usage(viewer=who)
    jobs = count_holding(viewer=who, cluster_id=cluster_id)
    many = len(nodes) > gpu_tiles.MANY_NODES
    holders = describe_gpu_tenants(nodes, now, slices)
    colors = holders.colors if by_tenant else {}
    held = gpu_tiles.by_device(slices) if by_tenant or not many else {}
    return {
        "nodes_known": bool(nodes),
        "size": (len(nodes), len(cards)),
        "tiles": [
            *_use_tiles(nodes, now),
            _idle_tile(idle, measured=not slices or bool(cards & now.keys())),
            _waiting_tile(waiting, clock.now(), _pending_url(who, scope.cluster_name)),
            _running_tile(who, scope, jobs),
            _nodes_tile(nodes, scope),
            _alerts_tile(who, scope),
            _gang_tile(flavors),
        ],
        "pool_chart": work_charts.draw_pools(flavors),
        "state_chart": work_charts.draw_states(jobs, waiting.jobs),
        "kind_chart": work_charts.draw_kinds(jobs),
        "busiest": busiest_nodes(nodes, now, scope),
        "histogram": use_histogram(nodes, now),
        "flavors": flavors,
        "foreign": any(row.foreign for row in flavors),
        "others": describe_foreign_holdings(foreign_holdings(viewer=who, cluster_id=cluster_id)),
        "stranded": stranded_sentences(count_stranded(nodes)),
        "tenants": tenants_table.tenant_rows(
            usages,
            used=_used_by_workspace(who, slices),
            waiting=waiting.by_workspace,
            waiting_url=partial(_pending_url, who, scope.cluster_name),
            flavors=frozenset(row.flavor.pk for row in flavors) if cluster_id else None,
        ),
        "more_tenants": tenants_table.find_deepest(usages) < max((one.depth for one in usages), default=0),
        "reasons": _reason_bars(who, waiting, scope.cluster_name),
        "idle_jobs": _idle_jobs(idle, slices, {usage.tenant.pk: usage.tenant for usage in usages}),
        "gpu_tenants": holders.rows,
        "mosaics": gpu_tiles.node_mosaics(nodes, scope, now, held, colors) if many else (),
        "grid": () if many else gpu_tiles.node_tiles(nodes, scope, now, held, colors),
    }


def _use_tiles(nodes: Sequence[GridNode], now: Mapping[uuid.UUID, CardNow]) -> list[Tile]:
    cards = [card for node in nodes for card in node.cards]
    allocated = sum(card.cores_granted for card in cards)
    capacity = sum(card.cores_capacity for card in cards)
    measured = [card for card in cards if card.id in now]
    known = [now[card.id] for card in measured]
    used = sum(reading.utilisation_percent for reading in known)
    held = [reading for reading in known if reading.cores_allocated]
    of_allocated = labels.compute_percent(
        sum(reading.utilisation_percent for reading in held), sum(reading.cores_allocated for reading in held)
    )
    meaning = _("No data in the last 30 s")
    if known:
        memory = labels.compute_percent(
            sum(reading.memory_used_mib for reading in known), sum(card.memory_mib for card in measured)
        )
        meaning = _("%(share)s of allocated · GPU memory %(memory)s") % {
            "share": formats.format_percent(of_allocated),
            "memory": formats.format_percent(memory, 1),
        }
    return [
        Tile(
            label=_("Allocated"),
            value=formats.format_percent(labels.compute_percent(allocated, capacity), 1),
            meaning=_("%(part)s of %(total)s GPUs")
            % {"part": formats.format_gpus(allocated), "total": formats.format_gpus(capacity)},
        ),
        Tile(
            label=_("GPU utilization"),
            value=formats.format_percent(labels.compute_percent(used, 100 * len(known)), 1),
            meaning=meaning,
        ),
    ]


def _idle_tile(idle: Sequence[IdleSlice], *, measured: bool) -> Tile:
    if not measured:
        return Tile(
            label=_("Idle GPUs (allocated, > 5 min)"),
            value=formats.MISSING,
            meaning=_("No data in the last 30 s"),
        )
    jobs = len({part.job_id for part in idle})
    return Tile(
        label=_("Idle GPUs (allocated, > 5 min)"),
        value=formats.format_number(len(idle)),
        meaning=ngettext("%(n)s job", "%(n)s jobs", jobs) % {"n": jobs} if idle else _("None"),
        tone="waiting" if idle else "",
        url="#idle" if idle else "",
    )


def _pending_url(who: User, cluster: str, tenant: Tenant | None = None) -> str:
    """Return the list of the pending jobs that may start on a cluster, or on any."""
    return all_jobs_address(who, state="waiting", cluster=cluster, tenant=tenant.slug if tenant else "")


def _waiting_tile(waiting: Waiting, now: datetime, url: str) -> Tile:
    meaning = _("No pending jobs")
    if waiting.median_since and waiting.oldest_since:
        meaning = _("Median %(median)s · longest %(oldest)s") % {
            "median": formats.format_duration(_age(now, waiting.median_since), 1),
            "oldest": formats.format_duration(_age(now, waiting.oldest_since), 1),
        }
    return Tile(label=_("Pending jobs"), value=formats.format_number(waiting.jobs), meaning=meaning, url=url)


def _age(now: datetime, since: datetime) -> timedelta:
    # A clock that is slightly late must not replace the age by a dash.
    return max(now - since, timedelta())


def _running_tile(who: User, scope: ClusterScope, jobs: Mapping[tuple[str, str], int]) -> Tile:
    running = sum(count for (state, _kind), count in jobs.items() if state in RUNNING_STATES)
    return Tile(
        label=_("Running jobs"),
        value=formats.format_number(running),
        meaning=_("View"),
        url=all_jobs_address(who, state="running", cluster=scope.cluster_name),
    )


def _nodes_tile(nodes: Sequence[GridNode], scope: ClusterScope) -> Tile:
    cards = [card for node in nodes for card in node.cards]
    ready, healthy = sum(node.ready for node in nodes), sum(card.healthy for card in cards)
    values = {"nodes": formats.format_number(len(nodes)), "healthy": formats.format_number(healthy)}
    return Tile(
        label=_("Ready nodes"),
        value=formats.format_number(ready),
        meaning=_("of %(nodes)s · %(healthy)s of %(cards)s GPUs healthy")
        % {**values, "cards": formats.format_number(len(cards))},
        tone="" if ready == len(nodes) and healthy == len(cards) else "waiting",
        url=build_address(reverse("frontend:ops-nodes"), {"cluster": scope.cluster_name}),
    )


def _alerts_tile(who: User, scope: ClusterScope) -> Tile:
    firing = count_firing(who, None, cluster_id=scope.cluster_id)
    return Tile(
        label=_("Firing alerts of the cluster") if scope.cluster_id else _("Firing alerts"),
        value=formats.format_number(sum(firing.values())),
        meaning=describe_firing(firing),
        tone=tone_of_firing(firing),
        url=_address_firing(scope.cluster_name),
    )


def _address_firing(cluster: str) -> str:
    conditions = [f"state=={AlertState.FIRING}", *([f"cluster=={cluster}"] if cluster else [])]
    return f"{reverse('frontend:ops-alerts')}?{urlencode({PARAMETER: conditions}, doseq=True)}"


def _gang_tile(flavors: Iterable[FlavorCapacity]) -> Tile:
    best = max(flavors, key=lambda row: (row.one_rack, row.free, row.flavor.name), default=None)
    fits = best is not None and best.one_rack > 0
    return Tile(
        label=_("Largest gang that can start now"),
        value=formats.format_number(best.one_rack if best else 0),
        meaning=_("%(flavor)s, single rack") % {"flavor": best.flavor.name}
        if best and fits
        else _("No GPU is fully free"),
        tone="" if fits else "waiting",
    )


def stranded_sentences(found: Stranded) -> list[str]:
    """Return sentences about free capacity that can't be used, and why; empty if all of it can."""
    causes = [
        (
            found.not_ready_nodes,
            ngettext("%(n)s node not ready", "%(n)s nodes not ready", found.not_ready_nodes),
        ),
        (found.cordoned_nodes, ngettext("%(n)s node cordoned", "%(n)s nodes cordoned", found.cordoned_nodes)),
        (
            found.closed_nodes,
            ngettext("%(n)s node closed to new jobs", "%(n)s nodes closed to new jobs", found.closed_nodes),
        ),
        (
            found.cpu_full_nodes,
            ngettext("CPU exhausted on %(n)s node", "CPU exhausted on %(n)s nodes", found.cpu_full_nodes),
        ),
    ]
    sentences = []
    if found.cards:
        why = _(", ").join(text % {"n": n} for n, text in causes if n)
        text = ngettext(
            "%(n)s free GPU can't be used: %(why)s.", "%(n)s free GPUs can't be used: %(why)s.", found.cards
        )
        sentences.append(text % {"n": found.cards, "why": why})
    if found.fragment_cores:
        text = ngettext(
            "%(cards)s GPUs in fragments on %(n)s node.",
            "%(cards)s GPUs in fragments on %(n)s nodes.",
            found.fragment_nodes,
        )
        sentences.append(
            text % {"cards": formats.format_gpus(found.fragment_cores), "n": found.fragment_nodes}
        )
    return sentences


def describe_foreign_holdings(found: Iterable[ForeignHolding]) -> list[str]:
    """Describe the holders of GPUs outside Allotment: one sentence for each origin."""
    sentences = []
    for holding in found:
        names = list(holding.namespaces.items())
        shown = [f"{name} ({cards})" for name, cards in names[:_NAMESPACES_SHOWN]]
        if len(names) > len(shown):
            shown.append(_("%(n)s more") % {"n": len(names) - len(shown)})
        text = ngettext(
            "Used outside Allotment, %(origin)s: %(n)s GPU. By namespace: %(namespaces)s.",
            "Used outside Allotment, %(origin)s: %(n)s GPUs. By namespace: %(namespaces)s.",
            holding.cards,
        )
        values = {"origin": ForeignOrigin(holding.origin).label, "n": holding.cards}
        sentences.append(text % {**values, "namespaces": _(", ").join(shown)})
    return sentences


def _used_by_workspace(who: User, slices: Iterable[LiveSlice]) -> dict[uuid.UUID, tenants_table.TenantUse]:
    """Return the measured use of the jobs with allocations; jobs that have just ended don't count.

    A job never spans clusters, so this is also right for one cluster.
    """
    owners = {part.job_id: part.workspace_id for part in slices}
    found: dict[uuid.UUID, tenants_table.TenantUse] = {}
    for job_id, use in jobs_now(who, owners.keys()).items():
        had = found.get(owners[job_id], tenants_table.TenantUse())
        found[owners[job_id]] = tenants_table.TenantUse(
            had.used + use.cores_used, had.allocated + use.cores_allocated
        )
    return found


def _reason_bars(who: User, waiting: Waiting, cluster: str) -> list[ReasonBar]:
    longest = max(waiting.by_reason.values(), default=1)
    return [
        ReasonBar(
            title=reasons.reason_title(code),
            count=count,
            share=100 * count / longest,
            url=all_jobs_address(who, state="waiting", cluster=cluster, filterBy=f"reason=={code}"),
        )
        for code, count in waiting.by_reason.items()
    ]


def _idle_jobs(
    idle: Iterable[IdleSlice], slices: Iterable[LiveSlice], owners: Mapping[uuid.UUID, Tenant]
) -> list[IdleJob]:
    """Return the jobs with the most idle GPUs."""
    names = {part.job_id: part for part in slices}
    counts: defaultdict[uuid.UUID, int] = defaultdict(int)
    for part in idle:
        counts[part.job_id] += 1
    found = [
        _idle_job(names[job_id], owners[names[job_id].workspace_id], cards)
        for job_id, cards in counts.items()
        if job_id in names and names[job_id].workspace_id in owners
    ]
    return sorted(found, key=lambda job: (-job.cards, job.name, str(job.key)))[:_IDLE_SHOWN]


def _idle_job(part: LiveSlice, owner: Tenant, cards: int) -> IdleJob:
    return IdleJob(
        key=part.job_id,
        name=part.job,
        url=job_url(owner.slug, part.job_id),
        workspace=owner.name,
        cards=cards,
    )


def job_url(workspace: str, job_id: uuid.UUID) -> str:
    """Return a job's page in its workspace."""
    return navigation.find_address("frontend:job-detail", workspace=workspace, job=str(job_id))
