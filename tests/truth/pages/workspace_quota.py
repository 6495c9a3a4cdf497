"""Checks of the quota page of a workspace: all resources by pool, averages, and its users."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from clusters.models import Flavor
from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaNode
from quotas.models.quota_key import find_tree_key
from quotas.selectors.limits.tree import load_tree
from scheduling.models import Allocation, DeviceSlice
from tenants.models import Tenant
from tests.truth.pages.console import MISSING, same_hours, same_percent
from tests.truth.pages.lending import Lending
from tests.truth.pages.reading import Line, PageText, number_of
from tests.truth.pages.uses import Measured, job_of

_WORDS: Final = {
    Resource.GPU_CORES: ("Compute GPUs", 100),
    Resource.GPU_CARDS: ("GPU count GPUs", 1),
    Resource.GPU_MEMORY: ("GPU memory GiB", 1024),
    Resource.CPU: ("CPU cores", 1000),
    Resource.MEMORY: ("Memory GiB", 1024),
}


def check_workspace_quota(world: Measured) -> None:
    """Compare each number of the page with sums over rows."""
    for workspace, people in world.console.made.people.items():
        page = world.console.open(people[0], f"/w/{workspace.slug}/quota")
        for pool in world.console.made.pools:
            _check_pool(world, page, workspace, pool)
        _check_users(world, page, workspace)
        _check_averages(world, page, workspace)


def _check_pool(world: Measured, page: PageText, workspace: Tenant, pool: Flavor) -> None:
    nodes = {node.pk: node for node in QuotaNode.unscoped.filter(tenant=workspace)}
    shown = f"{pool.card_model} · Pending GPUs: " in page.text()
    found = page.lines("Resource", "Available", label=f"Quota of {pool.name}") if shown else ()
    lines = {line.name: line for line in found}
    for resource, (word, unit) in _WORDS.items():
        nominal, charged = _nominal(nodes, pool, resource), _charged(workspace, pool, resource)
        if word not in lines:
            assert nominal == 0 and charged == 0, (workspace.slug, pool.name, resource)
            continue
        line = lines[word]
        assert _is(line, "Allocated", charged / unit), (line, charged)
        borrowed = Lending(pool, resource).borrowed(world.console.ledger.node_of(workspace).pk)
        assert _is(line, "Borrowed", borrowed / unit), (line, borrowed)
        if nominal is None:
            assert (line.cells["Nominal quota"], line.cells["Free"]) == ("unlimited", "unlimited"), line
        else:
            assert _is(line, "Nominal quota", nominal / unit), (line, nominal)
            rest = (nominal - charged + borrowed) / unit
            assert abs((line.number("Lent") or 0) + (line.number("Free") or 0) - rest) <= 0.11, line
        _check_available(world, line, workspace, pool, resource)
        _check_use(world, line, workspace, pool, resource)
    asked = world.console.ledger.asked_gpus(workspace, pool)
    assert not lines or f"{pool.card_model} · Pending GPUs: {asked} " in page.text(), (workspace.slug, asked)


def _check_available(
    world: Measured, line: Line, workspace: Tenant, pool: Flavor, resource: Resource
) -> None:
    available, unit = _available(world, workspace, pool, resource), _WORDS[resource][1]
    if available is None:
        assert line.cells["Available"] == "unlimited", line
        return
    shown, *parts = line.numbers("Available")
    assert abs(shown - available / unit) <= 0.0501, (line, available)
    if not parts:
        return
    tree, key = load_tree(world.console.made.cell.pk), find_tree_key(pool.pk, resource)
    queues = [str(queue.node_id) for queue in world.console.made.queues if queue.workspace_id == workspace.pk]
    splits = set()
    for node in (node for node in queues if tree.available(node, key) == available):
        nominal = tree.subtree_quota(node, key)
        own = available if nominal is None else min(available, max(0, nominal - tree.usage(node, key)))
        splits.add((own, available - own))
    # Of queues with equally much available, any may be shown.
    assert any(
        abs(parts[0] - own / unit) <= 0.0501 and abs(parts[1] - borrow / unit) <= 0.0501
        for own, borrow in splits
    ), (line, splits)


def _check_use(world: Measured, line: Line, workspace: Tenant, pool: Flavor, resource: Resource) -> None:
    held = [part for part in world.found.held.values() if _is_of(part, workspace, pool)]
    known = [part for part in held if part.pk in world.found.slices]
    if resource not in (Resource.GPU_CORES, Resource.GPU_MEMORY) or (held and not known):
        assert (line.cells["Used"], line.cells["Utilization"]) == (MISSING, MISSING), line
        return
    cores = resource is Resource.GPU_CORES
    uses = [world.found.slices[part.pk] for part in known]
    used = sum(use.percent if cores else use.memory_mib for use in uses)
    of = sum(part.cores if cores else part.memory_mib for part in known)
    assert _is(line, "Used", used / _WORDS[resource][1]), (line, used)
    assert line.cells["Used"].startswith("≥ ") == (len(known) < len(held)), (line, known, held)
    assert same_percent(line.cells["Utilization"], 100 * used / of if of else None), (line, used, of)


def _check_users(world: Measured, page: PageText, workspace: Tenant) -> None:
    true = world.console.ledger.gpu_seconds(world.until, workspace)
    if not true.total():
        assert "No GPUs allocated in the last 30 days." in page.text()
        return
    held: Counter[str] = Counter()
    for part in world.found.held.values():
        if job_of(part).workspace_id == workspace.pk:
            held[job_of(part).submitted_by.username] += part.cores
    lines = {line.name: line for line in page.lines("User", "Share")}
    assert lines.keys() == true.keys()
    for user, line in lines.items():
        assert _is(line, "GPUs allocated", held[user] / 100), (line, held)
        assert same_hours(line.cells["GPU-hours"], true[user]), (line, true)
        assert same_percent(line.cells["Share"], 100 * true[user] / true.total()), (line, true)


def _check_averages(world: Measured, page: PageText, workspace: Tenant) -> None:
    """An average is over the time since the workspace exists, or since its first run."""
    runs = DeviceSlice.unscoped.filter(allocation__attempt__job__workspace=workspace)
    begins = runs.values_list("allocation__attempt__admitted_at", flat=True)
    age = world.until - min(workspace.created_at, *begins, world.until)
    for pool in world.console.made.pools:
        parts = [
            part
            for part in DeviceSlice.unscoped.select_related("allocation__attempt__job__workspace")
            if _is_of(part, workspace, pool)
        ]
        if not parts:
            continue
        line = next(line for line in page.lines("Pool", "24 h", "30 days") if line.name == pool.name)
        measured = sum(world.found.measured_s[part.pk] for part in parts)
        used = sum(world.found.used_s[part.pk] for part in parts)
        for heading, length in (("24 h", 1), ("7 days", 7), ("30 days", 30)):
            allocated, _, share = line.cells[heading].partition(" ")
            mean = sum(map(world.gpu_seconds, parts)) / min(age, timedelta(days=length)).total_seconds()
            assert abs((number_of(allocated) or 0) - mean) <= 0.051, (line, mean)
            assert same_percent(share, 100 * used / measured if measured else None), (line, used, measured)


def _is_of(part: DeviceSlice, workspace: Tenant, pool: Flavor) -> bool:
    return job_of(part).workspace_id == workspace.pk and part.allocation.flavor_id == pool.pk


def _is(line: Line, heading: str, true: float) -> bool:
    return abs((line.number(heading) or 0.0) - true) <= 0.0501


def _nominal(nodes: Collection[uuid.UUID], pool: Flavor, resource: Resource) -> int | None:
    rows = Quota.unscoped.filter(node__in=nodes, flavor=pool, resource=resource.value)
    amounts = list(rows.values_list("own_nominal", flat=True))
    return None if None in amounts else sum(amount or 0 for amount in amounts)


def _available(world: Measured, workspace: Tenant, pool: Flavor, resource: Resource) -> int | None:
    """The most that one of the queues can reserve now, by the tree that admits jobs."""
    tree, key = load_tree(world.console.made.cell.pk), find_tree_key(pool.pk, resource)
    queues = [queue for queue in world.console.made.queues if queue.workspace_id == workspace.pk]
    found = [tree.available(str(queue.node_id), key) for queue in queues]
    return None if None in found else max(0, *(amount or 0 for amount in found))


def _charged(workspace: Tenant, pool: Flavor, resource: Resource) -> int:
    rows = Allocation.unscoped.filter(
        attempt__job__workspace=workspace, flavor=pool, released_at__isnull=True
    )
    return sum(charge.get(resource.value, 0) for charge in rows.values_list("charge", flat=True))
