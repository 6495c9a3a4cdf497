"""The page of one node: its GPUs, their holders, its charts and events."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from clusters.models import Device, Node
from clusters.selectors.foreign import foreign_on_node
from clusters.selectors.node import get_open_cordon, last_refusal, list_node_events, node_get
from clusters.services.node_life import is_held
from foundation.core import clock
from foundation.core.errors import Invalid
from foundation.core.quantities import format_cpu
from frontend.components import view_models
from frontend.pages.charts.responses import chart_answer, charts_context
from frontend.pages.nodes import node_acts
from frontend.pages.nodes.cordon_words import cordon_box, refusal_box
from frontend.pages.operations import labels
from frontend.pages.operations.cluster_scope import (
    ClusterScope,
    build_address,
    ops_frame,
    remove_null_characters,
    scope_of,
)
from frontend.pages.operations.nodes.gpu_events import gpu_event_rows
from frontend.pages.operations.nodes.gpu_facts import XIDS_WITHIN, ReportedFacts
from frontend.pages.operations.nodes.node_cards import card_views, foreign_rows, hold_rows
from frontend.pages.operations.nodes.node_events import event_row, pressure_words
from frontend.pages.operations.nodes.node_list import taint_text
from frontend.pages.operations.overview.overview import DEFAULT_RANGE
from frontend.shell.page_shell import get_viewer, operator_required
from frontend.shell.time_range import read_time_range
from frontend.texts import formats
from scheduling.selectors.allocations.holder import DeviceHold, device_holds, node_holds
from scheduling.selectors.allocations.holding import NodeHoldEvent, node_events
from telemetry.series import CardNow, utilisation_now
from telemetry.series.readings.agents import AgentVersions, count_xids, node_agents
from tenants.models import User

_LATEST = 20


@require_http_methods(["GET", "HEAD", "POST"])
@operator_required
def show_node(request: HttpRequest, name: str) -> HttpResponse:
    """Show the whole page; POST cordons, uncordons or drains the node."""
    scope = scope_of(request)
    if request.method == "POST":
        node_acts.run_act(request, get_viewer(request), _node(request, scope, name))
        return redirect(request.get_full_path())
    try:
        found = _node(request, scope, name)
    except Invalid:  # nodes of several clusters have this name: the list shows all of them
        return redirect(build_address(reverse("frontend:ops-nodes"), {"name": remove_null_characters(name)}))
    ops_frame(request, scope, path=reverse("frontend:ops-nodes"), shown=found.cluster)
    context = {
        **_context(request, found),
        "crumbs": [view_models.Crumb(label=_("Nodes"), url=reverse("frontend:ops-nodes"))],
    }
    return render(request, "frontend/operations/node.html", context)


@require_GET
@operator_required
def node_live(request: HttpRequest, name: str) -> HttpResponse:
    """Show GPUs, holders and events with fresh numbers."""
    scope = scope_of(request)
    found = _node(request, scope, name)
    return render(request, "frontend/operations/node_live.html", _context(request, found))


@require_GET
@operator_required
def node_chart(request: HttpRequest, name: str, kind: str) -> HttpResponse:
    """Return one chart of the node as data."""
    found = _node(request, scope_of(request), name)
    chosen = read_time_range(request, DEFAULT_RANGE)
    return chart_answer(get_viewer(request), "node", found.pk, kind, chosen)


def _node(request: HttpRequest, scope: ClusterScope, name: str) -> Node:
    return node_get(viewer=get_viewer(request), name=remove_null_characters(name), cluster=scope.cluster_name)


def _addresses(request: HttpRequest, found: Node) -> dict[str, Any]:
    """Return the addresses of the page's live parts, for the same cluster and range."""
    chosen = read_time_range(request, DEFAULT_RANGE)
    query, own = {"cluster": found.cluster.name}, {"name": found.name}
    return {
        **charts_context("node", "frontend:ops-node-chart", own, query, chosen),
        "live_url": build_address(reverse("frontend:ops-node-live", kwargs=own), query | chosen.query),
    }


def _context(request: HttpRequest, found: Node) -> dict[str, Any]:
    who = get_viewer(request)
    devices = list(found.devices.all())
    holds = device_holds(viewer=who, devices=devices)
    allocations = node_holds(viewer=who, nodes=[found]).get(found.pk, [])
    now = utilisation_now(who, node_ids=[found.pk])
    cordon = get_open_cordon(found)
    jobs_left = len({row.attempt.job_id for row in allocations})
    return {
        "page_url": build_address(
            reverse("frontend:ops-node", kwargs={"name": found.name}), {"cluster": found.cluster.name}
        ),
        **node_acts.describe_acts(who, found, cordon),
        "cordon": cordon_box(cordon, cordoned=found.cordoned, jobs_left=jobs_left),
        "refusal": refusal_box(last_refusal(viewer=who, node=found)),
        **_addresses(request, found),
        "node": found,
        "labels": sorted(found.labels.items()),
        "taints": [taint_text(taint) for taint in found.taints],
        "state": node_acts.describe_node_state(found),
        "trouble": _trouble(found),
        "facts": [*_facts(found, len(allocations)), *_gpu_facts(who, found, devices, holds, now)],
        "cards": card_views(devices, holds, now),
        "holds": hold_rows(allocations, devices, holds),
        "foreign": foreign_rows(foreign_on_node(viewer=who, node=found), devices),
        "unplaced": found.cards_unplaced,
        "events": _list_events(who, found),
        "gpu_events": gpu_event_rows(
            who,
            node_id=found.pk,
            most=_LATEST,
            names={device.gpu_uuid: f"GPU {device.index}" for device in devices},
        ),
    }


def _trouble(found: Node) -> view_models.ProblemBox | None:
    """Return why the node takes no pods."""
    if not found.ready:
        since = formats.format_relative(found.not_ready_since, clock.now()) if found.not_ready_since else ""
        return view_models.ProblemBox(
            title=_("Node is not ready"),
            detail=_("Since: %(since)s") % {"since": since} if since else "",
            unchanged=_(
                "Jobs on this node are being evicted. Their GPUs stay allocated until the cluster "
                "confirms deletion. If the machine is down, delete the Node object or add the "
                "out-of-service taint."
            ),
        )
    if found.closed:
        return view_models.ProblemBox(
            title=_("Node is closed"),
            detail=_(
                "The cluster belongs to another platform. No new jobs are placed on this node; "
                "running pods continue."
            ),
            tone="waiting",
        )
    if is_held(found, clock.now()):
        return view_models.ProblemBox(
            title=_("Node is flapping"),
            detail=_("The node was lost %(n)s times in a row. No new pods are scheduled until it is stable.")
            % {"n": found.flaps},
            tone="waiting",
        )
    if found.pressure:
        return view_models.ProblemBox(
            title=_("Node has %(what)s pressure") % {"what": pressure_words(found.pressure)},
            detail=_("Pods are evicted one at a time, by QoS class, until the pressure ends."),
            tone="waiting",
        )
    return None


def _facts(found: Node, pods: int) -> list[tuple[str, str]]:
    devices = list(found.devices.all())
    return [
        (_("CPU allocated"), _of(format_cpu(found.cpu_granted), format_cpu(found.cpu_millicores))),
        (
            _("Memory allocated"),
            _of(formats.format_memory(found.memory_granted), formats.format_memory(found.memory_mib)),
        ),
        (
            _("GPU compute allocated"),
            _of(
                formats.format_gpus(sum(device.cores_granted for device in devices)),
                formats.format_gpus(sum(device.cores_capacity for device in devices)),
            ),
        ),
        (
            _("GPU memory allocated"),
            _of(
                formats.format_memory(sum(device.memory_granted for device in devices)),
                formats.format_memory(sum(device.memory_capacity for device in devices)),
            ),
        ),
        (
            _("Free GPUs"),
            str(sum(_is_free(device) for device in devices)),
        ),
        (
            _("Pods"),
            str(pods) if found.pods is None else _of(str(pods + found.pods_foreign), str(found.pods)),
        ),
        *_foreign_facts(found),
    ]


def _gpu_facts(
    who: User,
    found: Node,
    devices: Sequence[Device],
    holds: Mapping[uuid.UUID, Sequence[DeviceHold]],
    now: Mapping[uuid.UUID, CardNow],
) -> list[tuple[str, str]]:
    """Return the facts of the node's GPUs together; a dash for what is not measured."""
    if not devices:
        return []
    agent = node_agents(who).filter(node=found).first()
    known = [(device, now[device.pk]) for device in devices if device.pk in now]
    slices = sum(not hold.exclusive for device in devices for hold in holds.get(device.pk, ()))
    instances = sum(bool(row.get("parent")) for row in agent.devices) if agent else 0
    memory = labels.compute_percent(
        sum(read.memory_used_mib for _device, read in known),
        sum(device.memory_mib for device, _read in known),
    )
    use = labels.compute_percent(sum(read.utilisation_percent for _device, read in known), 100 * len(known))
    modes = sorted({labels.mode_word(device.mode) for device in devices})
    versions = {found.pk: AgentVersions(agent.driver, agent.cuda, agent.seen_at)} if agent else {}
    facts = ReportedFacts(versions, count_xids(who, node_ids=[found.pk], since=clock.now() - XIDS_WITHIN))
    driver, cuda = facts.find_versions(found)
    return [
        (_("Allocation mode"), _(", ").join(modes)),
        (_("GPU utilization"), formats.format_percent(use, 1)),
        (_("GPU memory used"), formats.format_percent(memory, 1)),
        (_("GPU slices"), str(slices)),
        *([(_("MIG instances"), str(instances))] if instances else []),
        (_("Driver"), driver or formats.MISSING),
        ("CUDA", cuda or formats.MISSING),
        (_("XID errors in 24 h"), formats.format_number(facts.count_on_node(found))),
    ]


def _is_free(device: Device) -> bool:
    return device.healthy and not device.holders and not device.foreign_holders


def _foreign_facts(found: Node) -> list[tuple[str, str]]:
    if not found.pods_foreign:
        return []
    amounts = {"cpu": format_cpu(found.cpu_foreign), "memory": formats.format_memory(found.memory_foreign)}
    held = _("%(cpu)s CPU · %(memory)s · Pods: %(pods)s")
    return [(_("Used outside Allotment"), held % {**amounts, "pods": found.pods_foreign})]


def _of(part: str, whole: str) -> str:
    return _("%(part)s of %(whole)s") % {"part": part, "whole": whole}


def _list_events(who: User, found: Node) -> list[view_models.EventRow]:
    """Return the events of the node, newest first."""
    rows = [_event(event) for event in node_events(viewer=who, node=found)]
    rows += [event_row(event) for event in list_node_events(viewer=who, node=found)]
    return sorted(rows, key=lambda row: row.at, reverse=True)[:_LATEST]


def _event(event: NodeHoldEvent) -> view_models.EventRow:
    """Return an event of an allocated or released task as a row of the timeline."""
    row = event.allocation
    job = row.attempt.job
    values = {
        "task": f"{row.task.role.name}-{row.task.index}",
        "job": job.name,
        "workspace": job.workspace.name,
    }
    text = _("%(task)s of %(job)s (%(workspace)s)")
    return view_models.EventRow(
        at=event.at,
        text=text % values,
        tag=_("Scheduled") if event.came else _("Released"),
        tone="running" if event.came else "done",
    )
